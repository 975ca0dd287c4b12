// Package natsledger processes the messages of NATS JetStream, each once.
//
//	consumer := natsledger.Consumer{
//		Ledger: client, Source: orders, Handler: pay,
//		DeadLetter: natsledger.ToSubject(stream, "dead"), Concurrency: 8,
//	}
//	err := consumer.Run(ledger.ShutdownContext(20 * time.Second))
package natsledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"idempotency-ledger.internal/ledger"
	"idempotency-ledger.internal/ledger/brokers"
	"idempotency-ledger.internal/ledger/internal/adapter"
)

const (
	fetchWait  = time.Second // how long a fetch waits for messages: the end of the context is noticed after it
	retryFetch = time.Second
	callWait   = 10 * time.Second // how long a copy may take, or a question
	defaultAck = 30 * time.Second // JetStream's default, where a consumer has no ack_wait
)

// Consumer processes the messages of a pull consumer of JetStream. Ledger and Source must be set, and Handler or Store. Run
// may be called several times, and by several goroutines.
//
// What each outcome becomes: Ack is an ack; RetryLater is a nak with the outcome's delay; DeadLetter is the copy, then an
// ack, or a term. While a message is processed, a third of the acknowledgement wait after the last one, an in-progress
// extends it.
type Consumer struct {
	// Ledger is the client; it must stay open until Run has returned.
	Ledger *ledger.Ledger
	// Source is a pull consumer with explicit acknowledgement. Best without a MaxDeliver (-1): JetStream drops a message
	// after that many deliveries, whatever became of it; the ledger's policy bounds the attempts.
	Source jetstream.Consumer
	// Handler has the effect: see ledger.Process for its context, its result and its errors. A panic ends the program,
	// after it is settled.
	Handler func(ctx context.Context, claim *ledger.Claim, message jetstream.Msg) (result []byte, err error)
	// Store keeps the messages in the ledger's inbox, for ledger.Work, in place of a Handler: one of the two is set.
	Store bool
	// Name is the name of a message. An error that is brokers.ErrNoID makes it a dead letter, any other one ends Run. nil:
	// [Name].
	Name func(message jetstream.Msg) (brokers.Name, error)
	// DeadLetter stores a copy of a dead letter. nil: the message is terminated, and stays in its stream as long as that
	// keeps messages.
	DeadLetter DeadLetter
	// Concurrency is how many messages are processed at the same time, 1 to 1000. 0: 1.
	Concurrency int
	// Grace is how long Run waits for running handlers after its context has ended. 0: 20 s.
	Grace time.Duration
	// Logger gets what went wrong, at most a line a second of each kind; never a payload or an id. nil: slog.Default().
	Logger *slog.Logger
	// Observe is called with the outcome of each delivery before it is acknowledged, by several goroutines: for metrics. It
	// is not called for a delivery that is given back since the context has ended. nil: nothing.
	Observe func(outcome ledger.Outcome[[]byte])
}

// Name is the name of a message: that of its CloudEvent, else its stream and its header Nats-Msg-Id.
func Name(message jetstream.Msg) (brokers.Name, error) {
	headers := map[string]string{}
	for name, values := range message.Headers() {
		if len(values) > 0 {
			headers[name] = values[0]
		}
	}
	if name, isEvent, err := brokers.FromCloudEvent(headers, message.Data()); isEvent {
		return name, err
	}
	id := message.Headers().Get(jetstream.MsgIDHeader)
	if id == "" {
		return brokers.Name{}, fmt.Errorf("%w: the message has neither the attributes of a CloudEvent nor the header %s",
			brokers.ErrNoID, jetstream.MsgIDHeader)
	}
	place, err := message.Metadata()
	if err != nil {
		return brokers.Name{}, err
	}
	return brokers.Name{Key: ledger.Key{Source: place.Stream, ID: id}}, nil
}

// inboxMessage is the message for the inbox, with its subject and its place in the stream.
func inboxMessage(message jetstream.Msg) ledger.Message {
	found := ledger.Message{Payload: message.Data(), Topic: message.Subject()}
	for _, name := range slices.Sorted(maps.Keys(message.Headers())) {
		for _, value := range message.Headers()[name] {
			found.Headers = append(found.Headers, ledger.Header{Name: name, Value: []byte(value)})
		}
	}
	if place, err := message.Metadata(); err == nil {
		offset := int64(place.Sequence.Stream)
		found.Offset = &offset
	}
	return found
}

// Run takes messages until the context ends, and returns nil when those that it has taken are settled. What it has fetched
// and not begun is given back.
//
// It returns an error where the settings are at fault, where no message can be fetched any more (the connection is closed,
// the consumer is deleted), where the Ledger is closed, and where handlers still run after the grace. While no server
// answers Run waits for one.
func (c Consumer) Run(ctx context.Context) error {
	if c.Source == nil || (c.Handler == nil) != c.Store {
		return errors.New("natsledger: Source must be set, and Handler or Store")
	}
	if c.Name == nil {
		c.Name = Name
	}
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), callWait)
	defer cancel()
	info, err := c.Source.Info(asking)
	if err != nil {
		return fmt.Errorf("natsledger: %w", err)
	}
	if policy := info.Config.AckPolicy; policy != jetstream.AckExplicitPolicy {
		return fmt.Errorf("natsledger: the consumer's ack_policy is %v, and must be explicit: each message is acknowledged by itself", policy)
	}
	pool, err := adapter.New(ctx, adapter.Settings{
		Ledger: c.Ledger, Concurrency: c.Concurrency, Grace: c.Grace, Logger: c.Logger, Observe: c.Observe,
		Place: fmt.Sprintf("stream %s, consumer %s", info.Stream, info.Name),
	})
	if err != nil {
		return fmt.Errorf("natsledger: %w", err)
	}
	defer pool.Close()
	if info.Config.MaxDeliver > 0 {
		pool.Warn("the consumer's max_deliver drops a message after that many deliveries, whatever became of it; set -1, and let the ledger's policy bound the attempts",
			fmt.Sprintf("max_deliver is %d", info.Config.MaxDeliver))
	}
	r := run{Consumer: c, pool: pool, extendEvery: extendEvery(info.Config)}
	if err := pool.Run(r.take); err != nil {
		return fmt.Errorf("natsledger: %w", err)
	}
	return nil
}

// run is one Run.
type run struct {
	Consumer
	pool        *adapter.Pool
	extendEvery time.Duration
}

// extendEvery is a third of the consumer's acknowledgement wait.
func extendEvery(config jetstream.ConsumerConfig) time.Duration {
	wait := config.AckWait
	if wait <= 0 {
		wait = defaultAck
	}
	for _, each := range config.BackOff { // It stands for the ack_wait of each delivery.
		wait = min(wait, each)
	}
	return max(wait/3, 10*time.Millisecond)
}

// take fetches messages for the slots, and begins each. It returns how many slots are used.
func (r *run) take(slots int) (used int) {
	batch, err := r.Source.Fetch(slots, jetstream.FetchMaxWait(fetchWait))
	if err != nil {
		r.failed(err)
		return 0
	}
	for message := range batch.Messages() {
		if r.pool.Ended() { // Nothing was done with it: another process may have it now.
			r.answered(message.Nak())
			continue
		}
		used++
		r.pool.Go(func() { r.settle(message) })
	}
	if err := batch.Error(); err != nil {
		r.failed(err)
	}
	return used
}

// failed waits where messages may be fetched again, and ends the run where they may not.
func (r *run) failed(err error) {
	if r.pool.Ended() {
		return
	}
	r.pool.Warn("no message can be fetched", err.Error())
	ctx, cancel := r.pool.Bounded(callWait)
	defer cancel()
	// A pull without a server, and one without its consumer, are answered alike.
	if _, asked := r.Source.Info(ctx); gone(err) || gone(asked) {
		r.pool.Fail(fmt.Errorf("no message can be fetched: %w", errors.Join(err, asked)))
		return
	}
	r.pool.Sleep(retryFetch)
}

// gone reports whether an error stays: the connection is closed, or the consumer does not exist.
func gone(err error) bool {
	for _, lasting := range []error{
		nats.ErrConnectionClosed, jetstream.ErrConnectionClosed, jetstream.ErrConsumerDeleted, jetstream.ErrConsumerNotFound,
		jetstream.ErrConsumerDoesNotExist, jetstream.ErrStreamNotFound, jetstream.ErrBadRequest,
	} {
		if errors.Is(err, lasting) {
			return true
		}
	}
	return false
}

// settle processes a message, and acknowledges it.
func (r *run) settle(message jetstream.Msg) {
	extended := adapter.Every(r.extendEvery, func() { _ = message.InProgress() })
	defer extended.Stop()
	name := func() (brokers.Name, error) { return r.Name(message) }
	var verdict adapter.Verdict
	if r.Store {
		verdict = r.pool.Store(r.pool.Context(), name, inboxMessage(message))
	} else {
		verdict = r.pool.Process(r.pool.Context(), name, message.Data(),
			func(ctx context.Context, claim *ledger.Claim) ([]byte, error) { return r.Handler(ctx, claim, message) })
	}
	if verdict.Advice == ledger.DeadLetter && r.DeadLetter != nil {
		ctx, cancel := r.pool.Bounded(callWait)
		defer cancel()
		if err := r.DeadLetter(ctx, message, verdict.Reason); err != nil {
			r.pool.Error("a dead letter is not stored; it is delivered again", err.Error())
			return
		}
	}
	extended.Stop() // What follows has its own time.
	switch {
	case verdict.NotBegun:
		r.answered(message.Nak())
	case verdict.Advice == ledger.RetryLater:
		r.answered(message.NakWithDelay(verdict.Delay))
	case verdict.Advice == ledger.DeadLetter && r.DeadLetter == nil:
		r.answered(message.Term())
	default:
		r.answered(message.Ack())
	}
}

// answered logs where a message was not acknowledged: JetStream delivers it again, and the ledger knows what became of it.
func (r *run) answered(err error) {
	if err != nil {
		r.pool.Warn("a message was not acknowledged", err.Error())
	}
}
