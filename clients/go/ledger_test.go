package ledger

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"idempotency-ledger.internal/ledger/ledgerv1"
)

func TestACallerThatIsGoneDoesNotWaitAndItsClaimIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{claim: func(ctx context.Context) (*ledgerv1.ClaimResponse, error) {
			time.Sleep(4 * time.Second)
			return granted(nil)(ctx)
		}}
		l := f.client(t, Options{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		outcome, err := Process(ctx, l, message, returning("", nil))
		if !errors.Is(err, context.DeadlineExceeded) || outcome.Advice != RetryLater || outcome.Delay == 0 || time.Since(f.began) != time.Second {
			t.Errorf("the outcome is %+v, %v, after %v", outcome, err, time.Since(f.began))
		}
		if err := l.Close(t.Context()); err != nil || len(f.of("Release")) != 1 || time.Since(f.began) != 4*time.Second {
			t.Errorf("the close returned %v, after %v", err, f.sent)
		}
		if _, err := Process(ctx, l, message, returning("", nil)); !errors.Is(err, ErrClosed) {
			t.Errorf("after the close: %v", err)
		}
	})
}

func TestACallerThatIsGoneBeforeSendsNothing(t *testing.T) {
	f := &fake{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if outcome, err := Process(ctx, f.client(t, Options{}), message, returning("", nil)); !errors.Is(err, context.Canceled) || outcome.Advice != RetryLater || len(f.sent) > 0 {
		t.Errorf("the outcome is %+v, %v, after %v", outcome, err, f.sent)
	}
}

func TestARunningEffectIsNotCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		ctx, cancel := context.WithCancel(t.Context())
		outcome, err := Process(ctx, f.client(t, Options{}), message, func(ctx context.Context, _ *Claim) (string, error) {
			cancel()
			return "paid", ctx.Err()
		})
		if err != nil || outcome.Advice != Ack || outcome.Result != "paid" {
			t.Errorf("the outcome is %+v, %v", outcome, err)
		}
	})
}

func TestCloseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		l := f.client(t, Options{})
		ended := make(chan Outcome[string])
		go func() {
			outcome, _ := Process(context.Background(), l, message, func(context.Context, *Claim) (string, error) {
				time.Sleep(25 * time.Second)
				return "paid", nil
			})
			ended <- outcome
		}()
		synctest.Wait()
		if err := l.Close(context.Background()); err == nil || time.Since(f.began) != closeGrace {
			t.Errorf("the close returned %v after %v", err, time.Since(f.began))
		}
		if outcome := <-ended; outcome.Advice != Ack {
			t.Errorf("an effect that outlived the close has %+v", outcome)
		}
		if err := l.Close(context.Background()); err != nil {
			t.Errorf("a second close: %v", err)
		}
	})
}

func TestAPanicIsSettledAndGoesOn(t *testing.T) {
	f := &fake{}
	l := f.client(t, Options{})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic did not go on")
			}
		}()
		_, _ = Process(t.Context(), l, message, func(context.Context, *Claim) (string, error) { panic("broken") })
	}()
	if len(f.of("Fail")) != 1 {
		t.Errorf("it was not settled: %v", f.sent)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = Process(t.Context(), l, message, func(context.Context, *Claim) (string, error) { runtime.Goexit(); return "", nil })
	}()
	<-ended
	if len(f.of("Fail"))+len(f.of("Complete"))+len(f.of("Release")) != 1 {
		t.Errorf("a handler that was interrupted was settled: %v", f.sent)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestWithoutAnAnswerTheEndpointIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{claim: func(context.Context) (*ledgerv1.ClaimResponse, error) { return nil, errHop }}
		l := f.client(t, Options{Endpoint: "ledger.example:50051"})
		outcome, err := Process(t.Context(), l, message, returning("", nil))
		if want := "no answer from ledger.example:50051 (Options.Endpoint, else LEDGER_ENDPOINT): text"; err != nil || outcome.Detail != want {
			t.Errorf("the detail is %q, %v", outcome.Detail, err)
		}
	})
}

func TestANilHandlerIsRefusedBeforeTheClaim(t *testing.T) {
	f := &fake{}
	var invalid *InvalidFieldError
	outcome, err := Process[string](t.Context(), f.client(t, Options{}), message, nil)
	if !errors.As(err, &invalid) || outcome.Advice != RetryLater || len(f.sent) != 0 {
		t.Errorf("it is answered %+v, %v, and sent %v", outcome, err, f.sent)
	}
}

func TestNoGoroutineIsLeftBehind(t *testing.T) {
	f := &fake{}
	l := f.client(t, Options{})
	before := runtime.NumGoroutine()
	for range 100 {
		if outcome, err := Process(context.Background(), l, message, returning("", nil)); err != nil || outcome.Advice != Ack {
			t.Fatal(outcome, err)
		}
	}
	if after := runtime.NumGoroutine(); after > before {
		t.Errorf("%d goroutines are left behind", after-before)
	}
}
