package ledger

import (
	"context"
	"strings"
	"sync"
	"time"

	"idempotency-ledger.internal/ledger/ledgerv1"
)

const (
	leaseOver = "LEASE_OVER"
	// late: a process that wakes this much later than it had set stood still. Its lease may be over although no other claim
	// was granted the key: a Renew that is answered within lateBudget finds out.
	late         = 100 * time.Millisecond
	lateBudget   = time.Second
	shortestWait = 100 * time.Millisecond
	// The last part of a hold cannot be extended.
	holdSlack = time.Millisecond
)

// hold is a granted claim: how long it is held, and what has been sent under it. Its instants count from before the call was
// sent, so that they are early rather than late.
type hold struct {
	ledger  *Ledger
	request *ledgerv1.ClaimRequest
	granted *ledgerv1.Acquired
	// base has the caller's values and is never cancelled: settlements are sent under it.
	base context.Context
	// handler is cancelled when the claim is lost, with the reason.
	handler context.Context
	lose    context.CancelCauseFunc

	// settling lets one settlement begin at a time.
	settling sync.Mutex

	mu         sync.Mutex
	leaseUntil time.Time
	holdUntil  time.Time // zero: no end is known
	renewAt    time.Time
	announced  bool
	lost       string
	// completing: a Complete was sent. Its outcome may be unknown, and nothing but its repeat may be sent (rule 13).
	completing bool
	// settled is what the first settlement came to; nothing else is sent after it.
	settled *outcome

	renewal   *time.Timer
	renewing  context.Context
	stopRenew context.CancelFunc
}

func newHold(ctx context.Context, l *Ledger, request *ledgerv1.ClaimRequest, granted *ledgerv1.Acquired, sent time.Time) *hold {
	h := &hold{ledger: l, request: request, granted: granted, base: ctx}
	lease := granted.GetLease().AsDuration()
	h.leaseUntil, h.renewAt = sent.Add(lease), sent.Add(lease/3)
	if granted.Hold != nil {
		h.holdUntil = sent.Add(granted.GetHold().AsDuration())
	}
	h.handler, h.lose = context.WithCancelCause(ctx)
	return h
}

// over is why the claim must not be acted under any more; empty while it is held.
func (h *hold) over() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lost == "" && !time.Now().Before(h.leaseUntil) {
		return leaseOver
	}
	return h.lost
}

func (h *hold) isLost() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lost != ""
}

func (h *hold) check() error {
	if reason := h.over(); reason != "" {
		return &ClaimLostError{reason}
	}
	return nil
}

// open is why nothing may be announced or saved under the claim; nil while it is held and not settled.
func (h *hold) open() error {
	h.mu.Lock()
	settled := h.completing || h.settled != nil
	h.mu.Unlock()
	if settled {
		return &ClaimLostError{"CLAIM_CLOSED"}
	}
	return h.check()
}

// left is what remains of the lease.
func (h *hold) left() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Until(h.leaseUntil)
}

// renew extends the lease, with what else the request says.
func (h *hold) renew(ctx context.Context, budget time.Duration, request *ledgerv1.RenewRequest) (*ledgerv1.RenewResponse, *failure) {
	request.Key, request.Token, request.Lease = h.request.Key, h.granted.Token, h.request.Lease
	answer, sent, failed := repeated(ctx, h.ledger.rpc.Renew, request, budget, callTimeout)
	if failed != nil {
		return nil, failed
	}
	lease := answer.GetLease().AsDuration()
	h.mu.Lock()
	defer h.mu.Unlock()
	if until := sent.Add(lease); until.After(h.leaseUntil) {
		h.leaseUntil = until
	}
	h.renewAt = sent.Add(lease / 3)
	if answer.Hold != nil {
		if until := sent.Add(answer.GetHold().AsDuration()); h.holdUntil.IsZero() || until.Before(h.holdUntil) {
			h.holdUntil = until
		}
	}
	return answer, nil
}

// madeSure reports whether the handler may run. A Claim that has waited may have used up its lease by this process's clock,
// which counts from before it was sent, and so may a process that stood still: a Renew says how it stands.
func (h *hold) madeSure() bool {
	if h.over() != "" {
		if _, failed := h.renew(h.base, callTimeout, &ledgerv1.RenewRequest{}); failed != nil {
			return false
		}
	}
	return h.over() == ""
}

func (h *hold) announce(ctx context.Context) error {
	if err := h.open(); err != nil {
		return err
	}
	switch h.granted.GetOnExpiry() {
	case ledgerv1.OnExpiry_ON_EXPIRY_PARK, ledgerv1.OnExpiry_ON_EXPIRY_PARK_IF_STARTED:
	default:
		return &NotProtectedError{h.onExpiry()}
	}
	h.mu.Lock()
	h.announced = true // The ledger may know it although its answer is lost.
	h.mu.Unlock()
	if _, failed := h.renew(ctx, h.left(), &ledgerv1.RenewRequest{EffectStarted: true}); failed != nil {
		return (&SteerError{kind: retry, name: "AnnouncementFailed"}).Because(failed)
	}
	return h.check()
}

func (h *hold) save(ctx context.Context, checkpoint []byte) error {
	if err := h.open(); err != nil {
		return err
	}
	answer, failed := h.renew(ctx, h.left(), &ledgerv1.RenewRequest{Checkpoint: append([]byte{}, checkpoint...)})
	switch {
	case failed != nil && failed.reason == "TOO_LARGE", answer.GetCheckpointDropped():
		return ErrCheckpointDropped
	case failed != nil && ctx.Err() != nil && h.over() == "":
		return context.Cause(ctx)
	case failed != nil:
		return &ClaimLostError{failed.name()}
	}
	return nil
}

// keep begins to renew the lease: a goroutine exists from a third of the lease on.
func (h *hold) keep() {
	h.renewing, h.stopRenew = context.WithCancel(h.base)
	h.renewal = time.AfterFunc(time.Until(h.renewAt), h.renewUntilOver)
}

// drop ends that; an answer that still arrives is ignored.
func (h *hold) drop() {
	if h.renewal != nil {
		h.renewal.Stop()
		h.stopRenew()
	}
	h.lose(nil)
}

// renewUntilOver renews the lease at a third of it, until the claim is dropped or lost.
func (h *hold) renewUntilOver() {
	for {
		until, final := h.wake()
		if !sleep(h.renewing, time.Until(until)) {
			return
		}
		reason, over := h.renewed(until, final)
		if reason != "" && h.renewing.Err() == nil {
			h.mu.Lock()
			h.lost = reason
			h.mu.Unlock()
			h.lose(&ClaimLostError{reason})
		}
		if over {
			return
		}
	}
}

// wake is when there is something to do for the lease, and whether it is in the last part of the hold: then nothing more is
// sent, and the claim ends with its lease.
func (h *hold) wake() (until time.Time, final bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	final = !h.holdUntil.IsZero() && !h.leaseUntil.Add(holdSlack).Before(h.holdUntil)
	if final || h.leaseUntil.Before(h.renewAt) {
		return h.leaseUntil, final
	}
	return h.renewAt, final
}

// renewed does what is due for the lease. It returns why the claim is lost, and whether nothing more is due.
func (h *hold) renewed(until time.Time, final bool) (reason string, over bool) {
	h.mu.Lock()
	settled, ended, next := h.settled != nil, !time.Now().Before(h.leaseUntil), h.leaseUntil
	if h.renewAt.Before(next) {
		next = h.renewAt
	}
	h.mu.Unlock()
	switch {
	case settled:
		return "", true
	case final && ended:
		return leaseOver, true
	case final, time.Now().Before(next): // Announced or saved meanwhile, which renews too.
		return "", false
	case ended && time.Since(until) < late:
		return leaseOver, true
	}
	budget := h.left()
	if ended {
		budget = lateBudget
	}
	if _, failed := h.renew(h.renewing, budget, &ledgerv1.RenewRequest{}); failed != nil {
		return h.notRenewed(failed)
	}
	return "", false
}

func (h *hold) notRenewed(failed *failure) (reason string, over bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch failed.reason {
	case "LEASE_LOST", "CLAIM_CLOSED", "ENTRY_NOT_FOUND", "TOKEN_FROM_FUTURE":
		if h.completing { // The ledger has closed the claim, whether its answer has arrived here or not.
			return "", true
		}
		return failed.reason, true
	}
	left := time.Until(h.leaseUntil)
	if left <= 0 {
		return leaseOver, true
	}
	// Refused for now (rights, the limit of the hold): the lease that is left still stands.
	h.renewAt = time.Now().Add(min(left, max(shortestWait, left/3)))
	return "", false
}

// onExpiry is what becomes of the claim should its lease end, without the prefix of the enum.
func (h *hold) onExpiry() string {
	return strings.TrimPrefix(h.granted.GetOnExpiry().String(), "ON_EXPIRY_")
}

func (h *hold) isSettled() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.settled != nil
}
