package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"idempotency-ledger.internal/ledger/ledgerv1"
)

// Ledger is a client of the ledger for one consumer: the group that processes. It may be shared by goroutines, each with
// another message; make one for the life of a process.
type Ledger struct {
	consumer   string
	options    Options
	unexpected kind
	connection *grpc.ClientConn
	rpc        ledgerv1.LedgerServiceClient
	inflight   inflight
	report     report
	telemetry  *telemetry
}

// New makes a client. Nothing is sent before the first delivery.
//
// consumer is the group that processes, not a process: 1 to 128 bytes of UTF-8 without control characters. It returns an
// [*InvalidFieldError] for an option beyond its bound, and the error of a file that cannot be read.
func New(consumer string, options Options) (*Ledger, error) {
	checked, err := options.checked(consumer)
	if err != nil {
		return nil, err
	}
	connection, err := checked.dial()
	if err != nil {
		return nil, err
	}
	if checked.HandlerBudget > checked.AckWait && checked.AckWait > 0 {
		checked.Logger.Warn("a handler may take longer than the broker waits for an acknowledgement: it will deliver messages again whose handler still runs; raise its wait",
			"consumer", consumer, "handler_budget", checked.HandlerBudget, "ack_wait", checked.AckWait)
	}
	l := newLedger(consumer, checked, ledgerv1.NewLedgerServiceClient(connection))
	l.connection = connection
	return l, nil
}

func newLedger(consumer string, options Options, rpc ledgerv1.LedgerServiceClient) *Ledger {
	l := &Ledger{consumer: consumer, options: options, unexpected: options.unexpectedKind(), rpc: rpc}
	l.report = report{consumer: consumer, logger: options.Logger}
	l.telemetry = newTelemetry(consumer)
	return l
}

// Consumer is the group that processes, as New was given it.
func (l *Ledger) Consumer() string { return l.consumer }

// Must returns the client, and panics where New has returned an error: ledger.Must(ledger.New("payments", ledger.Options{})).
func Must(l *Ledger, err error) *Ledger {
	if err != nil {
		panic(err)
	}
	return l
}

// Process processes one delivery: it claims the message, runs the handler where the claim is granted, settles, and advises.
//
// The handler is given a context that is cancelled where the claim is lost, and not where ctx is: a running effect ends and
// is settled. What it returns is the result, of which later deliveries get the first one: []byte and string as they are,
// [None] for none, and any other T as JSON. By its error it says how its attempt ended: see [ErrRetry] and the others, and
// Options.Unexpected for any other error. A panic is an error, too, and goes on after the claim is settled.
//
// What the ledger answers is not an error: Outcome.Advice says what to do with the message. An error is returned where the
// handler has not begun: [ErrClosed], an [*InvalidFieldError] where the program is at fault, and the cause of ctx where it
// has ended; a claim that is granted meanwhile is released. The outcome is RetryLater then.
func Process[T any](
	ctx context.Context, l *Ledger, key Key, handler func(context.Context, *Claim) (T, error), options ...DeliveryOption,
) (Outcome[T], error) {
	if handler == nil {
		err := &InvalidFieldError{"handler", "must not be nil"}
		return typed[T](later(reasonOf(err))), err
	}
	claim, begun, err := l.Begin(ctx, key, options...)
	if claim == nil {
		return typed[T](begun), err
	}
	return processed(claim, handler), nil
}

// processed runs the handler, and settles by how it ends.
func processed[T any](claim *Claim, handler func(context.Context, *Claim) (T, error)) Outcome[T] {
	l := claim.hold.ledger
	defer claim.Close()
	value, err := run(claim, handler)
	if err != nil {
		return typed[T](claim.hold.fail(err))
	}
	if claim.hold.isSettled() {
		return typed[T](claim.hold.complete(nil, false))
	}
	encoded, err := encode(value)
	if err != nil {
		l.options.Logger.Error("a result cannot be encoded: the message is completed without it",
			"consumer", l.consumer, "type", fmt.Sprintf("%T", value))
	}
	settled := typed[T](claim.hold.complete(encoded, err != nil))
	settled.Result, settled.HasResult = value, true
	return settled
}

// run calls the handler. A panic goes on, after it is settled as an error of the handler.
func run[T any](claim *Claim, handler func(context.Context, *Claim) (T, error)) (value T, err error) {
	returned := false
	defer func() {
		if returned {
			return
		}
		if cause := recover(); cause != nil { // Without one the goroutine ends by runtime.Goexit.
			claim.hold.fail(&panicError{cause})
			panic(cause)
		}
	}()
	value, err = handler(claim.Context(), claim)
	returned = true
	return value, err
}

// panicError stands for a panic of a handler.
type panicError struct{ cause any }

func (e *panicError) Error() string { return fmt.Sprintf("panic of type %T", e.cause) }

// Begin claims the message for a program that settles by itself. A claim that is not nil is granted:
//
//	claim, outcome, err := l.Begin(ctx, key, ledger.Body(raw))
//	if claim == nil {
//		return outcome, err
//	}
//	defer claim.Close()
//	result, err := charge(claim.Context(), claim.IdempotencyKey())
//	if err != nil {
//		return claim.Fail(err), nil
//	}
//	return claim.Complete(result), nil
//
// Without a claim the outcome says what to do with the message. Errors are those of [Process].
func (l *Ledger) Begin(ctx context.Context, key Key, options ...DeliveryOption) (*Claim, Outcome[[]byte], error) {
	if !l.inflight.enter(false) {
		return nil, later("CLOSING"), ErrClosed
	}
	request, err := l.request(key, options)
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		l.inflight.leave()
		return nil, later(reasonOf(err)), err
	}
	ctx, end := l.telemetry.delivery(ctx)
	ended := func(found outcome) {
		end(found)
		l.report.outcome(found)
		l.inflight.leave()
	}
	if fault := key.fault(); fault != nil { // The message is at fault, and the ledger would refuse it in the same way.
		found := outcome{Advice: DeadLetter, Reason: "INVALID_FIELD", Detail: fault.Error(), Err: fault}
		ended(found)
		return nil, found, nil
	}
	return l.claim(ctx, request, ended)
}

// claim sends the Claim. A caller that is gone does not wait for its answer: a grant is released in the background.
func (l *Ledger) claim(ctx context.Context, request *ledgerv1.ClaimRequest, ended func(outcome)) (*Claim, outcome, error) {
	type begun struct {
		hold  *hold
		found outcome
	}
	answered := make(chan begun, 1)
	claim := func() {
		h, found := l.begin(context.WithoutCancel(ctx), request, func() bool { return ctx.Err() != nil || l.inflight.closes() })
		answered <- begun{h, found}
	}
	if ctx.Done() == nil {
		claim()
	} else {
		go claim()
	}
	select {
	case b := <-answered:
		if b.hold != nil {
			return newClaim(b.hold, ended), outcome{}, nil
		}
		ended(b.found)
		if b.found.Reason == "CLOSING" && ctx.Err() != nil {
			return nil, b.found, context.Cause(ctx)
		}
		return nil, b.found, nil
	case <-ctx.Done():
		go func() {
			b := <-answered
			if b.hold != nil {
				b.hold.drop()
				b.found = b.hold.givenBack("CLOSING")
			}
			ended(b.found)
		}()
		return nil, later("CLOSING"), context.Cause(ctx)
	}
}

func newClaim(h *hold, ended func(outcome)) *Claim {
	var once sync.Once
	return &Claim{hold: h, end: func(found outcome) {
		once.Do(func() {
			h.drop()
			ended(found)
		})
	}}
}

// Close refuses new deliveries, and lets running effects end and settle, until ctx ends; without a deadline of ctx for 20 s.
// A delivery whose claim arrives meanwhile gives it back.
//
// It returns an error where an effect still runs: it may go on, and its claim is settled where it ends before the process,
// which should end now; else the lease ends by itself.
func (l *Ledger) Close(ctx context.Context) error {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, closeGrace)
		defer cancel()
	}
	select {
	case <-l.inflight.close():
	case <-ctx.Done():
		return fmt.Errorf("ledger: effects still run: %w", context.Cause(ctx))
	}
	if l.connection == nil {
		return nil
	}
	if err := l.connection.Close(); err != nil && status.Code(err) != codes.Canceled {
		return err
	}
	return nil
}

func reasonOf(err error) string {
	var invalid *InvalidFieldError
	if errors.As(err, &invalid) {
		return "INVALID_FIELD"
	}
	return "CLOSING"
}
