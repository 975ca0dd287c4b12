package ledger

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"
	"idempotency-ledger.internal/ledger/ledgerv1"
)

// holding processes a message for a time; it returns the cause of the handler's context at its end, and how long it took.
func holding(t *testing.T, f *fake, l *Ledger, atMost time.Duration) (Outcome[string], time.Duration, error) {
	t.Helper()
	var cause error
	var took time.Duration
	outcome, err := Process(t.Context(), l, message, func(ctx context.Context, _ *Claim) (string, error) {
		sleep(ctx, atMost)
		cause, took = context.Cause(ctx), time.Since(f.began)
		return "", cause
	})
	if err != nil {
		t.Fatal(err)
	}
	return outcome, took, cause
}

func TestALeaseIsRenewedAtAThird(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		outcome, _, cause := holding(t, f, f.client(t, Options{Lease: 30 * time.Second}), 95*time.Second)
		renewals := f.of("Renew")
		if outcome.Advice != Ack || cause != nil || len(renewals) != 9 || renewals[0].at != 10*time.Second || renewals[8].at != 90*time.Second {
			t.Errorf("the outcome is %+v, %v, after %v", outcome, cause, renewals)
		}
		time.Sleep(time.Minute)
		if len(f.of("Renew")) != 9 {
			t.Error("it was renewed after its end")
		}
	})
}

func TestAShortHandlerIsNotRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		if outcome, _, _ := holding(t, f, f.client(t, Options{}), 9*time.Second); outcome.Advice != Ack || len(f.of("Renew")) > 0 {
			t.Errorf("the outcome is %+v, after %v", outcome, f.sent)
		}
	})
}

func TestALostClaimCancelsTheHandler(t *testing.T) {
	for _, test := range []struct {
		name    string
		refusal *refusal
		reason  string
		took    time.Duration
	}{
		{"refused for ever", &refusal{codes.Aborted, "LEASE_LOST", "RETRY_LATER", ""}, "LEASE_LOST", 10 * time.Second},
		{"not found", &refusal{codes.NotFound, "ENTRY_NOT_FOUND", "RETRY_LATER", ""}, "ENTRY_NOT_FOUND", 10 * time.Second},
		{"refused for now", &refusal{codes.PermissionDenied, "CONSUMER_NOT_ALLOWED", "RETRY_LATER", ""}, leaseOver, 30 * time.Second},
		{"not answered", errHop, leaseOver, 30 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{renew: func(context.Context, *ledgerv1.RenewRequest) (*ledgerv1.RenewResponse, error) {
					return nil, test.refusal
				}}
				outcome, took, cause := holding(t, f, f.client(t, Options{}), time.Hour)
				var lost *ClaimLostError
				if !errors.As(cause, &lost) || lost.Reason != test.reason || took < test.took-2*longestPause || took > test.took {
					t.Errorf("the cause is %v after %v", cause, took)
				}
				if outcome.Advice != RetryLater || outcome.Reason != test.reason || !outcome.EffectUnknown || len(f.of("Fail"))+len(f.of("Complete")) > 0 {
					t.Errorf("the outcome is %+v", outcome)
				}
			})
		})
	}
}

func TestNothingIsRenewedBeyondTheHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{claim: granted(func(acquired *ledgerv1.Acquired) { acquired.Hold = durationpb.New(35 * time.Second) })}
		f.renew = func(context.Context, *ledgerv1.RenewRequest) (*ledgerv1.RenewResponse, error) {
			left := 35*time.Second - time.Since(f.began)
			return &ledgerv1.RenewResponse{Lease: durationpb.New(left), Hold: durationpb.New(left)}, nil
		}
		outcome, took, _ := holding(t, f, f.client(t, Options{}), time.Hour)
		if outcome.Reason != leaseOver || took != 35*time.Second || len(f.of("Renew")) != 1 {
			t.Errorf("the outcome is %+v after %v and %v", outcome, took, f.of("Renew"))
		}
	})
}

func TestAProcessThatStoodStillAsksOnce(t *testing.T) {
	for _, answered := range []bool{true, false} {
		f := &fake{}
		if !answered {
			f.renew = func(context.Context, *ledgerv1.RenewRequest) (*ledgerv1.RenewResponse, error) {
				return nil, &refusal{codes.Aborted, "LEASE_LOST", "ACK", ""}
			}
		}
		h := newHold(t.Context(), f.client(t, Options{}), &ledgerv1.ClaimRequest{}, &ledgerv1.Acquired{Lease: durationpb.New(30 * time.Second)},
			time.Now().Add(-time.Hour))
		h.renewing = t.Context()
		until, final := h.wake()
		reason, over := h.renewed(until, final)
		if renewals := f.of("Renew"); len(renewals) != 1 || renewals[0].left > lateBudget {
			t.Errorf("it has asked %v", renewals)
		}
		if answered && (reason != "" || over || h.over() != "") || !answered && reason != "LEASE_LOST" {
			t.Errorf("the reason is %q, and over %v", reason, over)
		}
	}
}

func TestALeaseThatEndsWhileTheProcessRunsIsOver(t *testing.T) {
	f := &fake{}
	h := newHold(t.Context(), f.client(t, Options{}), &ledgerv1.ClaimRequest{}, &ledgerv1.Acquired{Lease: durationpb.New(30 * time.Second)},
		time.Now().Add(-30*time.Second))
	h.renewAt = h.leaseUntil
	if reason, over := h.renewed(h.wake()); reason != leaseOver || !over || len(f.sent) > 0 {
		t.Errorf("the reason is %q, and %v was sent", reason, f.sent)
	}
}

func TestAnAnnouncementIsConfirmedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hops := func(context.Context, *ledgerv1.RenewRequest) (*ledgerv1.RenewResponse, error) { return nil, errHop }
		for _, test := range []struct {
			onExpiry ledgerv1.OnExpiry
			renew    func(context.Context, *ledgerv1.RenewRequest) (*ledgerv1.RenewResponse, error)
			reason   string
			sends    bool
		}{
			{ledgerv1.OnExpiry_ON_EXPIRY_PARK_IF_STARTED, nil, "", true},
			{ledgerv1.OnExpiry_ON_EXPIRY_PARK, nil, "", true},
			{ledgerv1.OnExpiry_ON_EXPIRY_RECLAIM, nil, "NOT_PROTECTED", false},
			{99, nil, "NOT_PROTECTED", false},
			{ledgerv1.OnExpiry_ON_EXPIRY_PARK, hops, "AnnouncementFailed", true},
		} {
			f := &fake{claim: granted(func(acquired *ledgerv1.Acquired) { acquired.OnExpiry = test.onExpiry }), renew: test.renew}
			outcome, _ := Process(t.Context(), f.client(t, Options{}), message, func(ctx context.Context, claim *Claim) (string, error) {
				err := claim.Announce(ctx)
				if (err == nil) != (test.reason == "") {
					t.Errorf("%v: %v", test, err)
				}
				if test.renew != nil && !errors.Is(err, ErrNotAnnounced) {
					t.Errorf("%v is not ErrNotAnnounced", err)
				}
				return "", err
			})
			if outcome.Reason != test.reason || (len(f.of("Renew")) > 0) != test.sends {
				t.Errorf("on_expiry %v: the outcome is %+v after %v", test.onExpiry, outcome, f.of("Renew"))
			}
		}
	})
}

func TestCheckpointsThatAreNotStored(t *testing.T) {
	for _, test := range []struct {
		renew func(context.Context, *ledgerv1.RenewRequest) (*ledgerv1.RenewResponse, error)
		want  error
	}{
		{nil, nil},
		{func(context.Context, *ledgerv1.RenewRequest) (*ledgerv1.RenewResponse, error) {
			return &ledgerv1.RenewResponse{Lease: durationpb.New(time.Minute), CheckpointDropped: true}, nil
		}, ErrCheckpointDropped},
		{func(context.Context, *ledgerv1.RenewRequest) (*ledgerv1.RenewResponse, error) {
			return nil, &refusal{codes.InvalidArgument, "TOO_LARGE", "RETRY_LATER", ""}
		}, ErrCheckpointDropped},
	} {
		f := &fake{renew: test.renew}
		_, _ = Process(t.Context(), f.client(t, Options{}), message, func(ctx context.Context, claim *Claim) (string, error) {
			if err := claim.Save(ctx, []byte("half")); !errors.Is(err, test.want) {
				t.Errorf("it returns %v, and not %v", err, test.want)
			}
			return "", nil
		})
	}
}
