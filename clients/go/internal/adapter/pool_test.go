package adapter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"idempotency-ledger.internal/ledger"
	"idempotency-ledger.internal/ledger/brokers"
)

// pooled is a pool whose ledger has no server: nothing is sent before a claim.
func pooled(t *testing.T, ctx context.Context, concurrency int) (*Pool, *ledger.Ledger, *strings.Builder) {
	t.Helper()
	var log strings.Builder
	client, err := ledger.New("c", ledger.Options{Endpoint: "127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	pool, err := New(ctx, Settings{
		Ledger: client, Concurrency: concurrency, Place: "queue q", Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Observe: func(outcome ledger.Outcome[[]byte]) {
			fmt.Fprintf(&log, "observed %v %s\n", outcome.Advice, outcome.Reason)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return pool, client, &log
}

func never(context.Context, *ledger.Claim) ([]byte, error) { panic("no handler may begin") }

func TestSettingsAreChecked(t *testing.T) {
	client := ledger.Must(ledger.New("c", ledger.Options{}))
	for what, settings := range map[string]Settings{
		"no ledger": {}, "concurrency": {Ledger: client, Concurrency: 1001}, "grace": {Ledger: client, Grace: -1},
	} {
		if _, err := New(t.Context(), settings); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

func TestSlotsAreBounded(t *testing.T) {
	pool, _, _ := pooled(t, t.Context(), 3)
	if taken := pool.acquire(); taken != 3 {
		t.Fatalf("%d slots", taken)
	}
	pool.release(2)
	if !pool.AcquireOne() || pool.acquire() != 1 {
		t.Fatal("the other slot is not free")
	}
	pool.Close()
	if pool.acquire() != 0 || pool.AcquireOne() {
		t.Fatal("a slot after the end")
	}
}

func TestRunTakesUntilThePoolEnds(t *testing.T) {
	wrong := errors.New("wrong")
	pool, _, _ := pooled(t, t.Context(), 3)
	begun, ended := make(chan struct{}), make(chan struct{})
	takes := 0
	err := pool.Run(func(slots int) int {
		switch takes++; takes {
		case 1: // One of three slots is used, and stays so.
			pool.Go(func() {
				close(begun)
				<-ended
			})
			<-begun
			return 1
		case 2:
			if slots != 2 {
				t.Errorf("%d slots", slots)
			}
			pool.Fail(wrong)
			close(ended)
		}
		return 0
	})
	if takes != 2 || !errors.Is(err, wrong) || len(pool.slots) != 3 {
		t.Errorf("%d takes, the error %v, and %d free slots", takes, err, len(pool.slots))
	}
}

func TestDeliveryWithoutIDIsDeadLettered(t *testing.T) {
	pool, _, log := pooled(t, t.Context(), 1)
	verdict := pool.Process(pool.Context(), func() (brokers.Name, error) { return brokers.Name{}, fmt.Errorf("%w: no header", brokers.ErrNoID) }, nil, never)
	if verdict.Advice != ledger.DeadLetter || verdict.Reason != noID || verdict.NotBegun || pool.Ended() {
		t.Errorf("the verdict is %v", verdict)
	}
	if !strings.Contains(log.String(), "no header") || !strings.Contains(log.String(), "queue q") || !strings.Contains(log.String(), "observed DEAD_LETTER NO_ID") {
		t.Errorf("the log is %s", log.String())
	}
}

func TestErrorOfTheProgramEndsThePool(t *testing.T) {
	wrong := errors.New("wrong")
	key := ledger.Key{Source: "s", ID: "1", ReplayRun: "no run!"}
	for what, name := range map[string]func() (brokers.Name, error){
		"a name":       func() (brokers.Name, error) { return brokers.Name{}, wrong },
		"a replay run": func() (brokers.Name, error) { return brokers.Name{Key: key}, nil },
	} {
		pool, _, _ := pooled(t, t.Context(), 1)
		if verdict := pool.Process(pool.Context(), name, nil, never); !verdict.NotBegun {
			t.Errorf("%s: the verdict is %v", what, verdict)
		}
		var invalid *ledger.InvalidFieldError
		if err := pool.Wait(); !errors.Is(err, wrong) && !errors.As(err, &invalid) {
			t.Errorf("%s: the error is %v", what, err)
		}
	}
}

func TestClosedLedgerEndsThePool(t *testing.T) {
	pool, client, _ := pooled(t, t.Context(), 1)
	if err := client.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	verdict := pool.Process(pool.Context(), func() (brokers.Name, error) { return brokers.Name{Key: ledger.Key{Source: "s", ID: "1"}}, nil }, nil, never)
	if err := pool.Wait(); !verdict.NotBegun || !errors.Is(err, ledger.ErrClosed) {
		t.Errorf("the verdict is %v, the error %v", verdict, err)
	}
}

func TestEndOfTheContextGivesBack(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	pool, _, log := pooled(t, ctx, 1)
	end()
	verdict := pool.Process(pool.Context(), func() (brokers.Name, error) { return brokers.Name{Key: ledger.Key{Source: "s", ID: "1"}}, nil }, nil, never)
	if err := pool.Wait(); !verdict.NotBegun || err != nil || log.Len() > 0 {
		t.Errorf("the verdict is %v, the error %v, the log %s", verdict, err, log)
	}
}

func TestWaitIsBoundedByTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		pool := &Pool{settings: Settings{Concurrency: 2, Grace: time.Minute}, outer: ctx, slots: make(chan struct{}, 2)}
		pool.ctx, pool.end = context.WithCancelCause(ctx)
		pool.release(2)
		pool.AcquireOne()
		done := make(chan struct{})
		pool.Go(func() { <-done })
		end()
		began := time.Now()
		if err := pool.Wait(); err == nil || !strings.Contains(err.Error(), "1 deliveries still run") || time.Since(began) != time.Minute {
			t.Errorf("after %v the error is %v", time.Since(began), err)
		}
		close(done)
	})
}

func TestTimerEndsWithItsStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		timer := Every(time.Second, func() { calls++ })
		time.Sleep(3500 * time.Millisecond)
		timer.Stop()
		timer.Stop()
		time.Sleep(time.Hour)
		if calls != 3 {
			t.Errorf("%d calls", calls)
		}
	})
}
