package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"idempotency-ledger.internal/ledger/ledgerv1"
)

const secret = "card 4111"

func TestErrorsOfHandlersSettle(t *testing.T) {
	for _, test := range []struct {
		name    string
		err     error
		options Options
		method  string // of the settlement; empty: none
		kind    ledgerv1.FailureKind
		text    string
		reason  string
		delay   time.Duration
	}{
		{"retry", ErrRetry, Options{}, "Fail", ledgerv1.FailureKind_FAILURE_KIND_RETRYABLE, "Retry", "Retry", time.Second},
		{"wrapped", fmt.Errorf("%s: %w", secret, ErrTerminal), Options{}, "Fail", ledgerv1.FailureKind_FAILURE_KIND_TERMINAL, "Terminal", "Terminal", 0},
		{"park", Park("look").Because(errors.New(secret)), Options{}, "Fail", ledgerv1.FailureKind_FAILURE_KIND_PARK, "look", "look", 0},
		{"doubtful", ErrDoubtful, Options{}, "", 0, "", "DOUBTFUL", time.Second},
		{"give back", GiveBack("").After(3 * time.Second), Options{}, "Release", 0, "", "GiveBack", 3 * time.Second},
		{"not announced", ErrNotAnnounced, Options{}, "Fail", ledgerv1.FailureKind_FAILURE_KIND_RETRYABLE, "AnnouncementFailed", "AnnouncementFailed", time.Second},
		{"not protected", &NotProtectedError{"RECLAIM"}, Options{}, "Release", 0, "", "NOT_PROTECTED", mendingDelay},
		{"any other", errors.New(secret), Options{}, "Fail", ledgerv1.FailureKind_FAILURE_KIND_PARK, "*errors.errorString", "*errors.errorString", 0},
		{"any other, wrapped", fmt.Errorf("%s: %w", secret, context.Canceled), Options{}, "Fail", ledgerv1.FailureKind_FAILURE_KIND_PARK, "*errors.errorString", "*errors.errorString", 0},
		{"unexpected retry", errors.New(secret), Options{Unexpected: ErrRetry}, "Fail", ledgerv1.FailureKind_FAILURE_KIND_RETRYABLE, "*errors.errorString", "*errors.errorString", time.Second},
		{"unexpected doubt", errors.New(secret), Options{Unexpected: ErrDoubtful}, "", 0, "", "*errors.errorString", time.Second},
		{"lost", &ClaimLostError{"LEASE_LOST"}, Options{}, "", 0, "", "INTERRUPTED", time.Second},
		{"not UTF-8", Park("a\xff"), Options{}, "Fail", ledgerv1.FailureKind_FAILURE_KIND_PARK, "a?", "a\xff", 0},
		{"long", Retry(strings.Repeat("ä", 3000)), Options{}, "Fail", ledgerv1.FailureKind_FAILURE_KIND_RETRYABLE, strings.Repeat("ä", errorMax), strings.Repeat("ä", 3000), time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var settled proto.Message
				var log bytes.Buffer
				f := &fake{}
				f.end = func(_ context.Context, request proto.Message) (ledgerv1.Advice, error) {
					settled = request
					if fail, ok := request.(*ledgerv1.FailRequest); ok && fail.GetKind() != ledgerv1.FailureKind_FAILURE_KIND_RETRYABLE {
						return ledgerv1.Advice_ADVICE_DEAD_LETTER, nil
					}
					return ledgerv1.Advice_ADVICE_RETRY_LATER, nil
				}
				test.options.Logger = slog.New(slog.NewTextHandler(&log, nil))
				outcome, err := Process(t.Context(), f.client(t, test.options), message, returning("", test.err))
				if err != nil || outcome.Reason != test.reason || outcome.Delay != test.delay || !errors.Is(outcome.Err, test.err) {
					t.Errorf("the outcome is %+v, %v", outcome, err)
				}
				if (test.method == "") != (settled == nil) || test.method != "" && len(f.of(test.method)) != 1 {
					t.Errorf("it was settled by %v", settled)
				}
				if fail, ok := settled.(*ledgerv1.FailRequest); ok && (fail.GetKind() != test.kind || fail.GetError() != test.text) {
					t.Errorf("it was failed by %v", fail)
				}
				if strings.Contains(log.String(), "4111") || strings.Contains(log.String(), message.Source) {
					t.Errorf("it was logged: %s", log.String())
				}
			})
		})
	}
}

func TestNothingButAGrantIsProcessed(t *testing.T) {
	acquired := &ledgerv1.ClaimResponse_Acquired{Acquired: &ledgerv1.Acquired{Token: 7}}
	done := &ledgerv1.ClaimResponse_Completed{Completed: &ledgerv1.Completed{Result: []byte("paid"), Attempt: 2}}
	for _, test := range []struct {
		name   string
		answer *ledgerv1.ClaimResponse
		want   Outcome[string]
	}{
		{"completed", &ledgerv1.ClaimResponse{Advice: 2, Verdict: done}, Outcome[string]{Advice: Ack, Result: "paid", HasResult: true, Replayed: true, Attempt: 2}},
		{"completed, newer advice", &ledgerv1.ClaimResponse{Advice: 99, Verdict: done}, Outcome[string]{Delay: time.Second, Reason: "completed"}},
		{"acquired, other advice", &ledgerv1.ClaimResponse{Advice: 2, Verdict: acquired}, Outcome[string]{Delay: time.Second, Reason: "acquired"}},
		{"unknown verdict", &ledgerv1.ClaimResponse{Advice: 1}, Outcome[string]{Delay: time.Second, Reason: "UNKNOWN_VERDICT"}},
		{"in progress", &ledgerv1.ClaimResponse{Advice: 3, RetryAfter: durationpb.New(9 * time.Second), Verdict: &ledgerv1.ClaimResponse_InProgress{}},
			Outcome[string]{Delay: 9 * time.Second, Reason: "in_progress"}},
		{"no wait", &ledgerv1.ClaimResponse{Advice: 3, RetryAfter: durationpb.New(0), Verdict: &ledgerv1.ClaimResponse_Backoff{}},
			Outcome[string]{Delay: shortestDelay, Reason: "backoff"}},
		{"parked", &ledgerv1.ClaimResponse{Advice: 4, Verdict: &ledgerv1.ClaimResponse_Parked{}}, Outcome[string]{Advice: DeadLetter, Reason: "parked"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := &fake{claim: func(context.Context) (*ledgerv1.ClaimResponse, error) { return test.answer, nil }}
			found, err := Process(t.Context(), f.client(t, Options{}), message, func(context.Context, *Claim) (string, error) {
				t.Error("the handler ran")
				return "", nil
			})
			if err != nil || found != test.want {
				t.Errorf("the outcome is %+v, %v", found, err)
			}
		})
	}
}

func TestErrorsAdvise(t *testing.T) {
	for _, test := range []struct {
		refusal refusal
		want    Advice
	}{
		{refusal{codes.Aborted, "CLAIM_CLOSED", "ACK", ""}, Ack},
		{refusal{codes.InvalidArgument, "INVALID_FIELD", "DEAD_LETTER", ""}, DeadLetter},
		{refusal{codes.FailedPrecondition, "NEWER_REASON", "NEWER_ADVICE", ""}, RetryLater},
	} {
		f := &fake{claim: func(context.Context) (*ledgerv1.ClaimResponse, error) { return nil, &test.refusal }}
		found, err := Process(t.Context(), f.client(t, Options{}), message, returning("", nil))
		if err != nil || found.Advice != test.want || found.Reason != test.refusal.reason || (found.Delay > 0) != (test.want == RetryLater) {
			t.Errorf("%s is answered %+v, %v", test.refusal.reason, found, err)
		}
	}
}

func TestACompleteIsNeverFollowedByAFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{end: func(context.Context, proto.Message) (ledgerv1.Advice, error) { return 0, errHop }}
		outcome, err := Process(t.Context(), f.client(t, Options{}), message, func(ctx context.Context, claim *Claim) (string, error) {
			claim.Complete([]byte("paid"))
			renewals := len(f.of("Renew")) // While the Complete was repeated the lease was renewed.
			if claim.Save(ctx, []byte("late")) == nil || claim.Announce(ctx) == nil || len(f.of("Renew")) > renewals {
				t.Error("something was sent after a Complete")
			}
			return "", errors.New("after the effect")
		})
		if err != nil || outcome.Advice != RetryLater || outcome.Err == nil || len(f.of("Fail")) > 0 || len(f.of("Complete")) < 3 {
			t.Errorf("the outcome is %+v, %v, after %v", outcome, err, f.sent)
		}
	})
}

func TestTooLargeAResultIsLeftOutOnce(t *testing.T) {
	f := &fake{end: func(_ context.Context, request proto.Message) (ledgerv1.Advice, error) {
		if len(request.(*ledgerv1.CompleteRequest).GetResult()) > 0 {
			return 0, &refusal{codes.InvalidArgument, "TOO_LARGE", "RETRY_LATER", ""}
		}
		return ledgerv1.Advice_ADVICE_ACK, nil
	}}
	outcome, err := Process(t.Context(), f.client(t, Options{}), message, returning("paid", nil))
	if err != nil || outcome.Advice != Ack || !outcome.ResultDropped || outcome.Result != "paid" || len(f.of("Complete")) != 2 {
		t.Errorf("the outcome is %+v, %v", outcome, err)
	}
}

func TestPriorEffectIsParkedUnlessTheProgramRepeats(t *testing.T) {
	prior := granted(func(acquired *ledgerv1.Acquired) { acquired.PriorEffectStarted = true })
	f := &fake{claim: prior}
	outcome, _ := Process(t.Context(), f.client(t, Options{}), message, returning("paid", nil))
	if outcome.Advice != DeadLetter || outcome.Reason != "PRIOR_EFFECT_STARTED" || !outcome.EffectUnknown || outcome.Err != nil || len(f.of("Complete")) > 0 {
		t.Errorf("the outcome is %+v", outcome)
	}
	f = &fake{claim: prior}
	if outcome, _ = Process(t.Context(), f.client(t, Options{RepeatAnnounced: true}), message, returning("paid", nil)); outcome.Advice != Ack {
		t.Errorf("the outcome is %+v", outcome)
	}
}

func TestAClaimThatWaitedIsRenewedFirst(t *testing.T) {
	for _, answered := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{claim: func(ctx context.Context) (*ledgerv1.ClaimResponse, error) {
				time.Sleep(40 * time.Second) // Longer than the lease.
				return granted(nil)(ctx)
			}}
			if !answered {
				f.renew = func(context.Context, *ledgerv1.RenewRequest) (*ledgerv1.RenewResponse, error) { return nil, errHop }
			}
			outcome, _ := Process(t.Context(), f.client(t, Options{}), message, returning("paid", nil))
			if answered && outcome.Advice != Ack || !answered && (outcome.Reason != leaseOver || len(f.of("Release")) != 1) {
				t.Errorf("the outcome is %+v", outcome)
			}
		})
	}
}

func TestFaultsOfAMessageAreDeadLettersAndNotSent(t *testing.T) {
	var log bytes.Buffer
	f := &fake{}
	l := f.client(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for _, key := range []Key{{Source: "", ID: "1"}, {Source: "shop"}, {Source: "shop", ID: strings.Repeat("é", 257)}, {Source: "shop", ID: "a\u0085b"}, {Source: "shop", ID: "\xff"}} {
		outcome, err := Process(t.Context(), l, key, returning("", nil))
		var invalid *InvalidFieldError
		if err != nil || outcome.Advice != DeadLetter || outcome.Reason != "INVALID_FIELD" || !strings.Contains(outcome.Detail, "key.") || !errors.As(outcome.Err, &invalid) {
			t.Errorf("%q is answered %+v, %v", key, outcome, err)
		}
	}
	if len(f.sent) > 0 {
		t.Errorf("it was sent: %v", f.sent)
	}
	if !strings.Contains(log.String(), "a message is at fault") || strings.Contains(log.String(), "shop") {
		t.Errorf("it was logged: %s", log.String())
	}
}
