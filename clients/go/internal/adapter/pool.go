// Package adapter runs the deliveries of the brokers' adapters: a bounded number at the same time, each processed by the
// ledger, until the context of a Run ends.
package adapter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"idempotency-ledger.internal/ledger"
	"idempotency-ledger.internal/ledger/brokers"
	"idempotency-ledger.internal/ledger/internal/limit"
)

const (
	concurrencyMax = 1000
	defaultGrace   = 20 * time.Second
	noID           = "NO_ID"
)

// Settings are what every adapter has.
type Settings struct {
	Ledger      *ledger.Ledger
	Concurrency int           // 0: 1
	Grace       time.Duration // 0: 20 s
	Logger      *slog.Logger  // nil: slog.Default()
	// Observe is called with the outcome of each delivery, unless it is given back. nil: nothing.
	Observe func(ledger.Outcome[[]byte])
	// Place is where the deliveries come from, for the log: "queue orders".
	Place string
}

// Pool runs deliveries for one Run of an adapter.
type Pool struct {
	settings Settings
	ctx      context.Context
	end      context.CancelCauseFunc
	outer    context.Context
	slots    chan struct{} // a token is a free slot
	running  sync.WaitGroup
	lines    limit.Lines
}

// failure is the cause with which a pool ends that fails.
type failure struct{ err error }

func (f *failure) Error() string { return f.err.Error() }

// New makes a pool that ends with the context. It returns an error where the program is at fault.
func New(ctx context.Context, settings Settings) (*Pool, error) {
	if settings.Ledger == nil {
		return nil, errors.New("the Ledger is nil")
	}
	if settings.Concurrency == 0 {
		settings.Concurrency = 1
	}
	if settings.Concurrency < 1 || settings.Concurrency > concurrencyMax {
		return nil, fmt.Errorf("the Concurrency is %d; 1 to %d are allowed", settings.Concurrency, concurrencyMax)
	}
	if settings.Grace == 0 {
		settings.Grace = defaultGrace
	}
	if settings.Grace < 0 {
		return nil, fmt.Errorf("the Grace is %v; it must not be negative", settings.Grace)
	}
	if settings.Logger == nil {
		settings.Logger = slog.Default()
	}
	if settings.Observe == nil {
		settings.Observe = func(ledger.Outcome[[]byte]) {}
	}
	p := &Pool{settings: settings, outer: ctx, slots: make(chan struct{}, settings.Concurrency)}
	p.ctx, p.end = context.WithCancelCause(ctx)
	for range settings.Concurrency {
		p.slots <- struct{}{}
	}
	return p, nil
}

// Close ends the pool. Running deliveries go on.
func (p *Pool) Close() { p.end(nil) }

// Concurrency is how many deliveries run at the same time.
func (p *Pool) Concurrency() int { return p.settings.Concurrency }

// Done is closed when nothing more may be taken.
func (p *Pool) Done() <-chan struct{} { return p.ctx.Done() }

// Ended reports whether nothing more may be taken.
func (p *Pool) Ended() bool { return p.ctx.Err() != nil }

// Run calls take with the number of free slots until the pool ends; take begins deliveries by Go, and returns how many.
// Then Run waits for the deliveries that run, as Wait does.
func (p *Pool) Run(take func(slots int) (used int)) error {
	for {
		slots := p.acquire()
		if slots == 0 {
			return p.Wait()
		}
		p.release(slots - take(slots))
	}
}

// acquire waits for a free slot, and takes all that are free. It returns their number: 0 where the pool has ended.
func (p *Pool) acquire() int {
	select {
	case <-p.slots:
	case <-p.ctx.Done():
		return 0
	}
	if p.Ended() { // Both were ready.
		p.release(1)
		return 0
	}
	for taken := 1; ; taken++ {
		select {
		case <-p.slots:
		default:
			return taken
		}
	}
}

// AcquireOne waits for a free slot. It returns false where the pool has ended.
func (p *Pool) AcquireOne() bool {
	taken := p.acquire()
	if taken > 1 {
		p.release(taken - 1)
	}
	return taken > 0
}

// release gives back slots that were not used.
func (p *Pool) release(slots int) {
	for range slots {
		p.slots <- struct{}{}
	}
}

// Go runs a delivery in a slot that was acquired, and gives the slot back.
func (p *Pool) Go(deliver func()) {
	p.running.Go(func() {
		defer p.release(1)
		deliver()
	})
}

// Fail ends the pool with an error, which Wait returns. The first one counts.
func (p *Pool) Fail(err error) { p.end(&failure{err}) }

// Sleep waits for the time, or until the pool ends: then it returns false.
func (p *Pool) Sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-p.ctx.Done():
		return false
	}
}

// Bounded is a context for a call to the broker: it has the values of Run's context, and not its end.
func (p *Pool) Bounded(most time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(p.outer), most)
}

// Wait waits for the running deliveries, at most for the grace, after the pool has ended. It returns the error with which
// the pool has failed, and an error where deliveries still run.
func (p *Pool) Wait() error {
	<-p.ctx.Done()
	var failed *failure
	var err error
	if errors.As(context.Cause(p.ctx), &failed) {
		err = failed.err
	}
	ended := make(chan struct{})
	go func() {
		p.running.Wait()
		close(ended)
	}()
	timer := time.NewTimer(p.settings.Grace)
	defer timer.Stop()
	select {
	case <-ended:
		return err
	case <-timer.C:
		running := p.settings.Concurrency - len(p.slots)
		return errors.Join(err, fmt.Errorf("%d deliveries still run %v after the end of the context", running, p.settings.Grace))
	}
}

// Verdict is what to do with a delivery.
type Verdict struct {
	Advice ledger.Advice
	// Delay is how long to wait at least, with RetryLater.
	Delay time.Duration
	// Reason is why, for a dead letter. Empty where there is none.
	Reason string
	// NotBegun: the context has ended, and nothing was done with the delivery: give it back without a delay.
	NotBegun bool
}

// Context ends when nothing more may be taken: see Process.
func (p *Pool) Context() context.Context { return p.ctx }

// Process processes a delivery. A delivery without a name is a dead letter. What the program has wrong ends the pool. What
// has not begun when the context ends, which is the pool's or one that ends with it, is given back.
func (p *Pool) Process(
	ctx context.Context, name func() (brokers.Name, error), body []byte, handler func(context.Context, *ledger.Claim) ([]byte, error),
) Verdict {
	return p.deliver(ctx, name, func(named brokers.Name) (ledger.Outcome[[]byte], error) {
		return ledger.Process(ctx, p.settings.Ledger, named.Key, handler, ledger.Body(body), ledger.OccurredAt(named.OccurredAt))
	})
}

// Store stores a delivery in the inbox. What becomes of it otherwise is as of Process.
func (p *Pool) Store(ctx context.Context, name func() (brokers.Name, error), message ledger.Message) Verdict {
	return p.deliver(ctx, name, func(named brokers.Name) (ledger.Outcome[[]byte], error) {
		return p.settings.Ledger.Store(ctx, named.Key, message, ledger.OccurredAt(named.OccurredAt))
	})
}

func (p *Pool) deliver(
	ctx context.Context, name func() (brokers.Name, error), call func(brokers.Name) (ledger.Outcome[[]byte], error),
) Verdict {
	named, err := name()
	if errors.Is(err, brokers.ErrNoID) {
		p.log(slog.LevelError, "a delivery is dead-lettered", err.Error())
		p.settings.Observe(ledger.Outcome[[]byte]{Advice: ledger.DeadLetter, Reason: noID})
		return Verdict{Advice: ledger.DeadLetter, Reason: noID}
	}
	if err != nil {
		p.Fail(fmt.Errorf("the name of a delivery: %w", err))
		return Verdict{NotBegun: true}
	}
	outcome, err := call(named)
	if err != nil { // No handler has begun, and it is not known that the message is stored.
		if ctx.Err() == nil {
			p.Fail(err)
		}
		return Verdict{NotBegun: true}
	}
	p.settings.Observe(outcome)
	return Verdict{Advice: outcome.Advice, Delay: outcome.Delay, Reason: outcome.Reason}
}

// Warn logs at most a line a second of each message, with the number of those that were suppressed. Neither text may have a
// payload, a key or an id.
func (p *Pool) Warn(message, detail string) { p.log(slog.LevelWarn, message, detail) }

// Error is Warn for what an operator must see to.
func (p *Pool) Error(message, detail string) { p.log(slog.LevelError, message, detail) }

func (p *Pool) log(level slog.Level, message, detail string) {
	suppressed, due := p.lines.Due(message)
	if !due {
		return
	}
	p.settings.Logger.Log(context.WithoutCancel(p.outer), level, message, slog.String("place", p.settings.Place),
		slog.String("detail", detail), slog.Int("suppressed", suppressed))
}
