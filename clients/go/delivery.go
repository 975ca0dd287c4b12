package ledger

import (
	"context"
	"errors"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"idempotency-ledger.internal/ledger/ledgerv1"
)

const (
	errorMax      = 2000        // characters of a reason; the ledger cuts at 2 KiB
	defaultDelay  = time.Second // until the next delivery, where the ledger names no time
	shortestDelay = 50 * time.Millisecond
	mendingDelay  = 5 * time.Second // until a claim is tried again whose policy does not protect its effect
)

// errInterrupted is how a handler ended of which nothing is known.
var errInterrupted = errors.New("the handler has not said how it ended")

// later is the outcome of a delivery of which nothing else is known.
func later(reason string) outcome {
	return outcome{Advice: RetryLater, Delay: defaultDelay, Reason: reason}
}

// begin claims the message. It returns a hold where the handler may run, else what became of the delivery. base has the
// caller's values; gone reports whether the caller is gone, or the client closes.
func (l *Ledger) begin(base context.Context, request *ledgerv1.ClaimRequest, gone func() bool) (*hold, outcome) {
	wait := request.GetWait().AsDuration()
	answer, sent, failed := repeated(base, l.rpc.Claim, request, claimBudget+wait, callTimeout+wait)
	if failed != nil {
		return nil, l.refused(failed, outcome{Away: failed.away()})
	}
	acquired, granted := answer.GetVerdict().(*ledgerv1.ClaimResponse_Acquired)
	// Rule 9: only this verdict with only this advice is a grant.
	if !granted || answer.GetAdvice() != ledgerv1.Advice_ADVICE_PROCESS {
		return nil, verdict(answer)
	}
	h := newHold(base, l, request, acquired.Acquired, sent)
	if found, admitted := l.admitted(h, gone); !admitted {
		return nil, found
	}
	h.keep()
	return h, outcome{}
}

// admitted reports whether a handler may begin now; else it returns what became of the claim.
func (l *Ledger) admitted(h *hold, gone func() bool) (found outcome, admitted bool) {
	if h.isLost() { // While it waited for a handler: another attempt may be running, and nothing is settled.
		return later(h.over()), false
	}
	if gone() {
		return h.givenBack("CLOSING"), false
	}
	if !h.madeSure() {
		return h.givenBack(leaseOver), false
	}
	if h.granted.GetPriorEffectStarted() && !l.options.RepeatAnnounced { // Rule 14.
		parked := h.fail(Park("an earlier attempt had announced its effect"))
		parked.Reason, parked.EffectUnknown, parked.Err = "PRIOR_EFFECT_STARTED", true, nil
		return parked, false
	}
	return outcome{}, true
}

func (h *hold) givenBack(reason string) outcome {
	given := h.fail(GiveBack(""))
	given.Reason, given.Err = reason, nil
	return given
}

// complete settles: the effect is done. leftOut: there is a result that cannot be stored.
func (h *hold) complete(result []byte, leftOut bool) outcome {
	h.settling.Lock()
	defer h.settling.Unlock()
	if h.settled != nil {
		return *h.settled
	}
	h.mu.Lock()
	h.completing = true
	h.mu.Unlock()
	return h.settle(h.completed(result, leftOut))
}

// fail settles by how the handler ended. Nothing is sent after the first settlement (rule 13).
func (h *hold) fail(err error) outcome {
	h.settling.Lock()
	defer h.settling.Unlock()
	if h.settled != nil {
		if h.settled.Err == nil && err != errInterrupted { // Reported when the claim is closed.
			h.settled.Err = err
		}
		return *h.settled
	}
	found := h.failed(h.steered(err))
	found.Err = err
	return h.settle(found)
}

// settle keeps what the first settlement came to.
func (h *hold) settle(found outcome) outcome {
	found.Attempt = int(h.granted.GetAttempt())
	found.EffectUnknown = found.EffectUnknown || h.granted.GetEffectUnknown()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.settled = &found
	return found
}

func (h *hold) completed(result []byte, leftOut bool) outcome {
	base := later("")
	base.Result, base.HasResult, base.ResultDropped = result, !leftOut, leftOut
	request := &ledgerv1.CompleteRequest{
		Key: h.request.Key, Token: h.granted.Token, Result: result, ResultLeftOut: leftOut, EventType: h.request.EventType,
	}
	answer, _, failed := repeated(h.base, h.ledger.rpc.Complete, request, settleBudget, callTimeout)
	if failed != nil && failed.reason == "TOO_LARGE" && len(result) > 0 { // Rule 22.
		request = &ledgerv1.CompleteRequest{
			Key: h.request.Key, Token: h.granted.Token, ResultLeftOut: true, EventType: h.request.EventType,
		}
		answer, _, failed = repeated(h.base, h.ledger.rpc.Complete, request, settleBudget, callTimeout)
	}
	if failed != nil {
		return h.ledger.refused(failed, base)
	}
	base.ResultDropped = answer.GetResultDropped() // Rule 21.
	return advised(answer, base)
}

func (h *hold) failed(steer *SteerError) outcome {
	base := later(steer.said())
	switch steer.kind {
	case doubtful: // Rule 12: nothing is settled, and the lease ends by itself.
		base.Reason, base.EffectUnknown = or(steer.reason, "DOUBTFUL"), true
		return base
	case giveBack:
		request := &ledgerv1.ReleaseRequest{
			Key: h.request.Key, Token: h.granted.Token, Delay: span(steer.after),
			UnpinFingerprint: steer.unpin, EventType: h.request.EventType,
		}
		base.Delay = max(steer.after, shortestDelay)
		answer, _, failed := repeated(h.base, h.ledger.rpc.Release, request, settleBudget, callTimeout)
		if failed != nil {
			return h.ledger.refused(failed, base)
		}
		return advised(answer, base)
	}
	request := &ledgerv1.FailRequest{
		Key: h.request.Key, Token: h.granted.Token, Kind: failureKind(steer.kind), Error: cut(base.Reason),
		EventType: h.request.EventType,
	}
	if steer.kind == retry && steer.hasAfter {
		request.RetryAfter = span(steer.after)
	}
	answer, _, failed := repeated(h.base, h.ledger.rpc.Fail, request, settleBudget, callTimeout)
	if failed != nil {
		return h.ledger.refused(failed, base)
	}
	return advised(answer, base)
}

func failureKind(k kind) ledgerv1.FailureKind {
	switch k {
	case retry:
		return ledgerv1.FailureKind_FAILURE_KIND_RETRYABLE
	case terminal:
		return ledgerv1.FailureKind_FAILURE_KIND_TERMINAL
	}
	return ledgerv1.FailureKind_FAILURE_KIND_PARK
}

// verdict is what a verdict other than a grant says. One that this version does not know means RetryLater (rule 8).
func verdict(answer *ledgerv1.ClaimResponse) outcome {
	base := outcome{Reason: verdictName(answer)}
	if _, granted := answer.GetVerdict().(*ledgerv1.ClaimResponse_Acquired); granted || answer.GetVerdict() == nil {
		base = later(base.Reason)
		if answer.RetryAfter != nil {
			base.Delay = max(answer.GetRetryAfter().AsDuration(), shortestDelay)
		}
		return base
	}
	found := advised(answer, base)
	if done, completed := answer.GetVerdict().(*ledgerv1.ClaimResponse_Completed); completed && knownAdvice(answer.GetAdvice()) {
		missing := done.Completed.GetResultDropped() || done.Completed.GetResultExpired() || done.Completed.GetResultOmitted()
		found.HasResult, found.Replayed, found.Reason = !missing, true, ""
		if !missing {
			found.Result = append([]byte{}, done.Completed.GetResult()...)
		}
		found.ResultDropped, found.Attempt = done.Completed.GetResultDropped(), int(done.Completed.GetAttempt())
	}
	return found
}

func knownAdvice(advice ledgerv1.Advice) bool {
	switch advice {
	case ledgerv1.Advice_ADVICE_ACK, ledgerv1.Advice_ADVICE_RETRY_LATER, ledgerv1.Advice_ADVICE_DEAD_LETTER:
		return true
	}
	return false
}

// advised is the base with the advice of an answer (rules 7 and 8), and with the wait that it names (rule 10).
func advised(answer interface{ GetAdvice() ledgerv1.Advice }, base outcome) outcome {
	switch answer.GetAdvice() {
	case ledgerv1.Advice_ADVICE_ACK:
		base.Advice, base.Delay = Ack, 0
		return base
	case ledgerv1.Advice_ADVICE_DEAD_LETTER:
		base.Advice, base.Delay = DeadLetter, 0
		return base
	}
	base.Advice = RetryLater
	if base.Delay == 0 {
		base.Delay = defaultDelay
	}
	if named, ok := answer.(interface{ GetRetryAfter() *durationpb.Duration }); ok && named.GetRetryAfter() != nil {
		base.Delay = max(named.GetRetryAfter().AsDuration(), shortestDelay)
	}
	return base
}

// refused is what an error says: its own advice (rule 5), and RetryLater where it is not the ledger's (rule 3).
// Without an answer the detail names the endpoint: gRPC's own text often does not.
func (l *Ledger) refused(failed *failure, base outcome) outcome {
	base.Advice, base.Delay, base.Reason, base.Detail = failed.advised(), 0, failed.name(), failed.detail
	if failed.reason == "" {
		base.Detail = "no answer from " + l.options.Endpoint + " (Options.Endpoint, else LEDGER_ENDPOINT): " + failed.detail
	}
	if base.Advice == RetryLater {
		base.Delay = defaultDelay
		if failed.named {
			base.Delay = max(failed.retryAfter, shortestDelay)
		}
	}
	return base
}

// cut is the beginning of a reason, of at most errorMax characters. One that is not UTF-8 could not be sent at all.
func cut(reason string) string {
	characters := 0
	reason = strings.ToValidUTF8(reason, "?")
	for at := range reason {
		if characters == errorMax {
			return reason[:at]
		}
		characters++
	}
	return reason
}
