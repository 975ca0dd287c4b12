package ledger

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"idempotency-ledger.internal/ledger/ledgerv1"
)

func identical(t *testing.T, tries []sent) {
	t.Helper()
	for at, try := range tries {
		if try.raw != tries[0].raw {
			t.Errorf("try %d is another request", at)
		}
		if try.waits != (at > 0) {
			t.Errorf("try %d waits for a connection: %v", at, try.waits)
		}
	}
}

func TestRepeatsOfAClaimAreIdenticalAndBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{claim: func(context.Context) (*ledgerv1.ClaimResponse, error) { return nil, errHop }}
		outcome, err := Process(t.Context(), f.client(t, Options{}), message, returning("", nil))
		if err != nil || outcome.Advice != RetryLater || outcome.Reason != "NO_ANSWER (Internal)" || outcome.Delay != time.Second {
			t.Errorf("the outcome is %+v, %v", outcome, err)
		}
		tries := f.of("Claim")
		identical(t, tries)
		if took := time.Since(f.began); took > claimBudget || took < claimBudget-longestPause {
			t.Errorf("it was given up after %v", took)
		}
		pause := firstPause
		for at := 1; at < len(tries); at++ {
			if waited := tries[at].at - tries[at-1].at; waited < pause/2 || waited > pause {
				t.Errorf("the pause before try %d is %v, and not within half of %v", at, waited, pause)
			}
			pause = min(pause*2, longestPause)
		}
	})
}

func TestTriesOfACallHaveItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := func(ctx context.Context, _ proto.Message) (ledgerv1.Advice, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}
		f := &fake{end: hangs}
		outcome, _ := Process(t.Context(), f.client(t, Options{}), message, returning("paid", nil), Wait(8*time.Second))
		if outcome.Advice != RetryLater || outcome.Result != "paid" {
			t.Errorf("the outcome is %+v", outcome)
		}
		if claim := f.of("Claim")[0]; claim.left != callTimeout+8*time.Second {
			t.Errorf("a Claim that waits has %v", claim.left)
		}
		completes := f.of("Complete")
		identical(t, completes)
		if completes[0].left != callTimeout || time.Since(f.began) > settleBudget {
			t.Errorf("a try has %v, and the whole took %v", completes[0].left, time.Since(f.began))
		}
	})
}

func TestRefusalsAreRepeatedWhereATimeIsNamed(t *testing.T) {
	for _, test := range []struct {
		name  string
		error *refusal
		tries int
		after time.Duration
	}{
		{"another reason", &refusal{code: codes.FailedPrecondition, reason: "CONSUMER_DISABLED", advice: "RETRY_LATER"}, 1, 0},
		{"an unknown outcome", &refusal{code: codes.Unavailable, reason: "OUTCOME_UNKNOWN"}, 2, firstPause / 2},
		{"a named time", &refusal{code: codes.ResourceExhausted, reason: "OVERLOADED", after: "700"}, 2, 700 * time.Millisecond},
		{"a time beyond the budget", &refusal{code: codes.ResourceExhausted, reason: "OVERLOADED", after: "60000"}, 1, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{}
				f.claim = func(ctx context.Context) (*ledgerv1.ClaimResponse, error) {
					if len(f.of("Claim")) == 1 {
						return nil, test.error
					}
					return granted(nil)(ctx)
				}
				_, err := Process(t.Context(), f.client(t, Options{}), message, returning("", nil))
				tries := f.of("Claim")
				if err != nil || len(tries) != test.tries {
					t.Fatalf("%d tries, %v", len(tries), err)
				}
				if len(tries) == 2 && tries[1].at < test.after {
					t.Errorf("it was repeated after %v", tries[1].at)
				}
			})
		})
	}
}

func TestDurationsOfRequestsHaveWholeMicroseconds(t *testing.T) {
	for given, sent := range map[time.Duration]int32{time.Second / 3: 333_333_000, 1_500: 1_000, 250_000_250: 250_000_000} {
		if nanos := span(given).GetNanos(); nanos != sent {
			t.Errorf("%v is sent with %d ns", given, nanos)
		}
	}
}
