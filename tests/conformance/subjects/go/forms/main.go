// Program forms tries what only the Go package has: types of results, claims that a program settles by itself, wrapped errors,
// panics and contexts. It exits with 0 where all are right.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"reflect"
	"runtime"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/metadata"
	"idempotency-ledger.internal/ledger"
)

type receipt struct {
	Number string
	Amount int
}

type event struct{ id, source string }

func (e event) ID() string     { return e.id }
func (e event) Source() string { return e.source }

var run = uuid.NewString()

func key(name string) ledger.Key {
	return ledger.KeyFromCloudEvent(event{name + "-" + run, "forms"})
}

func check(truth bool, otherwise string, values ...any) {
	if !truth {
		_, _, line, _ := runtime.Caller(1)
		log.Fatalf("line %d: %s: %+v", line, otherwise, values)
	}
}

// twice processes a message two times; the second time no handler may run.
func twice[T any](l *ledger.Ledger, name string, value T) (first, again ledger.Outcome[T]) {
	ran := 0
	handler := func(context.Context, *ledger.Claim) (T, error) { ran++; return value, nil }
	first, err := ledger.Process(context.Background(), l, key(name), handler)
	check(err == nil && first.Advice == ledger.Ack && first.HasResult, name, first, err)
	again, err = ledger.Process(context.Background(), l, key(name), handler)
	check(err == nil && again.Advice == ledger.Ack && again.Replayed && ran == 1, name, again, ran, err)
	return first, again
}

func results(l *ledger.Ledger) {
	_, typed := twice(l, "typed", receipt{"r-1", 42})
	check(typed.HasResult && typed.Result == receipt{"r-1", 42}, "a value", typed)
	_, text := twice(l, "text", "paid")
	check(text.Result == "paid", "text", text)
	_, none := twice(l, "none", ledger.None{})
	check(none.HasResult && !none.ResultDropped, "no result", none)
	// The effect is done, and its value cannot be stored: a repeat has no second one.
	first, again := twice(l, "unstorable", make(chan int))
	check(first.ResultDropped && again.ResultDropped && !again.HasResult, "a value that cannot be stored", first, again)
	unread, err := ledger.Process(context.Background(), l, key("text"), func(context.Context, *ledger.Claim) (int, error) { return 0, nil })
	check(err == nil && unread.Advice == ledger.Ack && !unread.HasResult, "a result of another type", unread, err)
}

func claims(l *ledger.Ledger) {
	ctx := context.Background()
	claim, outcome, err := l.Begin(ctx, key("begun"), ledger.EventType("form"), ledger.OccurredAt(time.Now()))
	check(err == nil && claim != nil && claim.Attempt() == 1 && claim.OnExpiry() == "RECLAIM", "begun", outcome, err)
	check(time.Until(claim.HoldUntil()) > time.Hour, "the hold", claim.HoldUntil())
	settled := claim.Complete([]byte("r"))
	check(settled.Advice == ledger.Ack && claim.Fail(ledger.ErrTerminal).Advice == ledger.Ack, "a claim that is completed", settled)
	claim.Close()
	check(claim.Context().Err() != nil, "the context of a claim that is closed")
	claim, outcome, err = l.Begin(ctx, key("begun"))
	check(err == nil && claim == nil && outcome.Replayed && string(outcome.Result) == "r", "begun again", outcome, err)
	claim.Close()
	claim, _, err = l.Begin(ctx, key("failed"))
	check(err == nil && claim != nil, "failed", err)
	failed := claim.Fail(fmt.Errorf("wrapped: %w", ledger.Retry("later").After(5*time.Second)))
	check(failed.Advice == ledger.RetryLater && failed.Delay > 4*time.Second && errors.Is(failed.Err, ledger.ErrRetry), "failed", failed)
	claim.Close()
	claim, _, err = l.Begin(ctx, key("left"))
	check(err == nil && claim != nil, "left", err)
	claim.Close() // Nothing is known of its effect: nothing is settled.
	claim, outcome, err = l.Begin(ctx, key("left"))
	check(err == nil && claim == nil && outcome.Reason == "in_progress", "left", outcome, err)
}

func panics(l *ledger.Ledger) {
	func() {
		defer func() { check(recover() == "broken", "the panic did not go on") }()
		_, _ = ledger.Process(context.Background(), l, key("panics"), func(context.Context, *ledger.Claim) (ledger.None, error) { panic("broken") })
	}()
	outcome, err := ledger.Process(context.Background(), l, key("panics"), func(context.Context, *ledger.Claim) (ledger.None, error) { return ledger.None{}, nil })
	check(err == nil && outcome.Reason == "parked" && outcome.Advice == ledger.DeadLetter, "after a panic", outcome, err)
}

func contexts(l *ledger.Ledger) {
	type name struct{}
	ctx, cancel := context.WithDeadline(context.WithValue(context.Background(), name{}, "value"), time.Now().Add(time.Hour))
	outcome, err := ledger.Process(ctx, l, key("values"), func(ctx context.Context, claim *ledger.Claim) (string, error) {
		_, bounded := ctx.Deadline()
		cancel()
		return fmt.Sprintln(ctx.Value(name{}), bounded, ctx.Err(), claim.Check()), nil
	})
	check(err == nil && outcome.Result == "value false <nil> <nil>\n", "the handler's context", outcome, err)
	gone, err := ledger.Process(ctx, l, key("gone"), func(context.Context, *ledger.Claim) (ledger.None, error) {
		log.Fatal("a handler ran for a caller that is gone")
		return ledger.None{}, nil
	})
	check(errors.Is(err, context.Canceled) && gone.Advice == ledger.RetryLater && gone.Delay > 0, "a caller that is gone", gone, err)
	lost, err := ledger.Process(context.Background(), l, key("lost"), func(ctx context.Context, _ *ledger.Claim) (ledger.None, error) {
		<-ctx.Done()
		var loss *ledger.ClaimLostError
		check(errors.As(context.Cause(ctx), &loss) && loss.Reason == "LEASE_LOST", "the cause", context.Cause(ctx))
		return ledger.None{}, ctx.Err()
	})
	check(err == nil && lost.Reason == "LEASE_LOST" && lost.EffectUnknown, "a lost claim", lost, err)
}

func programs(l *ledger.Ledger) {
	for field, option := range map[string]ledger.DeliveryOption{
		"fingerprint": ledger.Fingerprint(nil), "wait": ledger.Wait(-1), "occurred_at": ledger.OccurredAt(time.Unix(1<<60, 0)),
	} {
		_, outcome, err := l.Begin(context.Background(), key("none"), option)
		var invalid *ledger.InvalidFieldError
		check(errors.As(err, &invalid) && invalid.Field == field && outcome.Advice == ledger.RetryLater, field, outcome, err)
	}
	_, _, err := l.Begin(context.Background(), ledger.Key{Source: "forms", ID: "x", ReplayRun: "a b"})
	check(err != nil, "a replay run")
}

// traced: traceparent is sent with each call, and no metadata that the caller has for another service.
func traced(l *ledger.Ledger) {
	parent := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{15: 0xAB, 14: 0x0C, 13: 0xBC, 12: 0xA}, SpanID: trace.SpanID{7: 1}, TraceFlags: 1})
	ctx := trace.ContextWithSpanContext(context.Background(), parent)
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "of another service")
	outcome, err := ledger.Process(ctx, l, key("traced"), func(context.Context, *ledger.Claim) (ledger.None, error) { return ledger.None{}, nil })
	check(err == nil && outcome.Advice == ledger.Ack, "traced", outcome, err)
	fmt.Println("traced")
}

func main() {
	l := ledger.Must(ledger.New("effects", ledger.Options{}))
	results(l)
	claims(l)
	panics(l)
	contexts(l)
	programs(l)
	traced(l)
	check(l.Close(context.Background()) == nil && l.Close(context.Background()) == nil, "close")
	_, _, err := l.Begin(context.Background(), key("closed"))
	check(errors.Is(err, ledger.ErrClosed), "closed", err)
	check(reflect.ValueOf(ledger.Outcome[ledger.None]{}.Advice).IsZero() && ledger.Outcome[ledger.None]{}.Advice.String() == "RETRY_LATER", "the zero advice")
}
