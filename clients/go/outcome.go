package ledger

import "time"

// Advice is what to do with the broker's message. Its zero value is RetryLater.
type Advice int

const (
	// RetryLater: do not acknowledge; let the broker deliver the message again, after Outcome.Delay.
	RetryLater Advice = iota
	// Ack: the message is completed; acknowledge it.
	Ack
	// DeadLetter: only a person can change the answer; store a safe copy, then acknowledge the message.
	DeadLetter
)

// String is ACK, RETRY_LATER or DEAD_LETTER.
func (a Advice) String() string {
	switch a {
	case Ack:
		return "ACK"
	case DeadLetter:
		return "DEAD_LETTER"
	default:
		return "RETRY_LATER"
	}
}

// None is the type of the result of a handler without a result.
type None = struct{}

// Outcome is what became of a delivery. Acknowledge the message on [Ack] alone.
type Outcome[T any] struct {
	// Advice is what to do with the broker's message.
	Advice Advice
	// Delay is how long to wait at least before the next delivery: at least 50 ms with RetryLater, else 0.
	Delay time.Duration
	// Result is what the handler of this or of the earlier attempt returned, where HasResult is true.
	Result T
	// HasResult is false where the result is not known here: it was not stored, has expired, or cannot be read as T.
	HasResult bool
	// Replayed: an earlier attempt completed the message, and no handler ran for this delivery.
	Replayed bool
	// ResultDropped: the effect had a result that the ledger has not stored; it was too large, or could not be encoded.
	// The message is completed all the same.
	ResultDropped bool
	// EffectUnknown: an earlier attempt may have had its effect, or this attempt ended in doubt.
	EffectUnknown bool
	// Reason is why, where it is not simply done: the ledger's reason (LEASE_LOST), its verdict (parked), the reason that
	// the handler gave, or one of the package: INVALID_FIELD, PRIOR_EFFECT_STARTED, NOT_PROTECTED, CLOSING, LEASE_OVER,
	// DOUBTFUL, INTERRUPTED, UNKNOWN_VERDICT, NO_ANSWER. Empty where there is none.
	Reason string
	// Detail is for people: the field at fault and its bound, what the error of a call said, or which endpoint did not answer.
	Detail string
	// Attempt is which attempt this was, or how many there were; 0 where it is not known.
	Attempt int
	// Err is what the handler returned, for the application's own log; it is not sent to the ledger.
	Err error
	// Away: Claim itself was not answered (UNAVAILABLE, DEADLINE_EXCEEDED, or no connection), so that no handler ran. Only then may
	// a consumer that has chosen to work without the ledger go on, by [ProcessAway].
	Away bool
}

// outcome is an Outcome whose result is as the ledger stores it.
type outcome = Outcome[[]byte]

// typed is the outcome with its result read as T.
func typed[T any](raw outcome) Outcome[T] {
	found := Outcome[T]{
		Advice: raw.Advice, Delay: raw.Delay, Replayed: raw.Replayed, ResultDropped: raw.ResultDropped,
		EffectUnknown: raw.EffectUnknown, Reason: raw.Reason, Detail: raw.Detail, Attempt: raw.Attempt, Err: raw.Err,
		Away: raw.Away,
	}
	if raw.HasResult {
		value, err := decode[T](raw.Result)
		found.Result, found.HasResult = value, err == nil
	}
	return found
}

// or is the text, or the other one where it is empty.
func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
