package ledger

import (
	"errors"
	"fmt"
	"time"
)

// The errors by which a handler says how its attempt ended. A handler returns one of them, or an error that wraps one; for
// operators it may carry a reason: see [Retry], [Terminal], [Park], [Doubtful] and [GiveBack].
var (
	// ErrRetry: the effect certainly did not happen, and another attempt may succeed.
	ErrRetry error = &SteerError{kind: retry}
	// ErrTerminal: the effect certainly did not happen, and no attempt will ever succeed: the message is dead-lettered.
	ErrTerminal error = &SteerError{kind: terminal}
	// ErrPark: a person must look at the message. Also right where it is unknown whether the effect happened.
	ErrPark error = &SteerError{kind: park}
	// ErrDoubtful: it is unknown whether the effect happened, and the next attempt finds out by itself, as with a guard
	// row. Nothing is settled: the lease ends by itself, and the next attempt finds EffectUnknown.
	ErrDoubtful error = &SteerError{kind: doubtful}
	// ErrGiveBack: nothing was begun: the claim is released, and the attempt does not count.
	ErrGiveBack error = &SteerError{kind: giveBack}
	// ErrNotAnnounced: the ledger has not confirmed an announcement, so the effect must not start. [Claim.Announce]
	// returns it; a handler that returns it has the message delivered again.
	ErrNotAnnounced error = &SteerError{kind: retry, name: "AnnouncementFailed"}
)

type kind int

const (
	park kind = iota
	retry
	terminal
	doubtful
	giveBack
)

func (k kind) String() string {
	return [...]string{"Park", "Retry", "Terminal", "Doubtful", "GiveBack"}[k]
}

// SteerError says how an attempt ended. Make one by [Retry], [Terminal], [Park], [Doubtful] or [GiveBack]; errors.Is
// reports that it is [ErrRetry], [ErrTerminal] and so on.
type SteerError struct {
	kind     kind
	name     string // instead of that of the kind
	reason   string
	after    time.Duration
	hasAfter bool
	unpin    bool
	cause    error
}

// Retry says that the effect certainly did not happen, and that another attempt may succeed.
//
// The reason is sent to the ledger and shown to operators, at most 2,000 characters of it: put no payload and no secret
// there. Without it the kind's name is sent. The next attempt is due after the back-off of the consumer's policy, unless
// [SteerError.After] says otherwise.
func Retry(reason string) *SteerError { return &SteerError{kind: retry, reason: reason} }

// Terminal says that the effect certainly did not happen and never will. The reason is as that of [Retry].
func Terminal(reason string) *SteerError { return &SteerError{kind: terminal, reason: reason} }

// Park says that a person must look at the message. The reason is as that of [Retry].
func Park(reason string) *SteerError { return &SteerError{kind: park, reason: reason} }

// Doubtful says that it is unknown whether the effect happened, and that the next attempt finds out by itself. Nothing is
// sent; the reason is that of the outcome.
func Doubtful(reason string) *SteerError { return &SteerError{kind: doubtful, reason: reason} }

// GiveBack says that nothing was begun: the attempt does not count. The reason is that of the outcome; it is not sent.
func GiveBack(reason string) *SteerError { return &SteerError{kind: giveBack, reason: reason} }

// After returns a copy that says when the next attempt is due, from 0 to 30 days; the server takes a longer time as 30 days, and a negative one
// as 0. It counts for [Retry] and [GiveBack].
func (e *SteerError) After(d time.Duration) *SteerError {
	copied := *e
	copied.after, copied.hasAfter = max(d, 0), true
	return &copied
}

// Unpin returns a copy that lets a corrected message with another body use the same key. It counts for [GiveBack], where
// nothing was done.
func (e *SteerError) Unpin() *SteerError {
	copied := *e
	copied.unpin = true
	return &copied
}

// Because returns a copy within which errors.Is and errors.As find the cause. The cause is neither sent nor logged.
func (e *SteerError) Because(cause error) *SteerError {
	copied := *e
	copied.cause = cause
	return &copied
}

// Error is the kind and the reason.
func (e *SteerError) Error() string {
	text := "ledger: " + e.title()
	if e.reason != "" {
		text += ": " + e.reason
	}
	if e.cause != nil {
		text += ": " + e.cause.Error()
	}
	return text
}

// Is reports whether the target is the sentinel of this kind.
func (e *SteerError) Is(target error) bool {
	other, ok := target.(*SteerError)
	return ok && *other == SteerError{kind: e.kind, name: other.name} && (other.name == "" || other.name == e.name)
}

// Unwrap returns the error that Because has set.
func (e *SteerError) Unwrap() error { return e.cause }

func (e *SteerError) title() string {
	if e.name != "" {
		return e.name
	}
	return e.kind.String()
}

// said is the reason, or the name of the kind without one.
func (e *SteerError) said() string {
	if e.reason != "" {
		return e.reason
	}
	return e.title()
}

// steered is what an error of a handler says of its effect.
func (h *hold) steered(err error) *SteerError {
	var steer *SteerError
	if errors.As(err, &steer) {
		return steer
	}
	var unprotected *NotProtectedError
	if errors.As(err, &unprotected) { // Rule 15: nothing has begun.
		return GiveBack("NOT_PROTECTED").After(mendingDelay)
	}
	// A handler whose claim is lost, or that was interrupted, cannot say what became of the effect: rule 12.
	var lost *ClaimLostError
	if errors.As(err, &lost) || h.isLost() || errors.Is(err, errInterrupted) {
		return Doubtful(or(h.over(), "INTERRUPTED"))
	}
	return &SteerError{kind: h.ledger.unexpected, reason: typeName(err)}
}

// typeName is the name of an error's type, without its text, which may have a payload: what fmt.Errorf and errors.Join
// have wrapped around an error says nothing by its type.
func typeName(err error) string {
	for {
		if panicked, ok := err.(*panicError); ok {
			return panicked.Error()
		}
		name := fmt.Sprintf("%T", err)
		switch name {
		case "*fmt.wrapError":
			err = errors.Unwrap(err)
		case "*fmt.wrapErrors", "*errors.joinError":
			several, ok := err.(interface{ Unwrap() []error })
			if !ok || len(several.Unwrap()) == 0 {
				return name
			}
			err = several.Unwrap()[0]
		default:
			return name
		}
	}
}
