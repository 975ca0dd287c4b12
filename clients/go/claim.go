package ledger

import (
	"context"
	"time"
)

// Claim is the right to process a message now. It is held under a lease, which is renewed until the claim is settled.
//
// A handler of [Process] is given one. A program that has one from [Ledger.Begin] settles it by Complete or Fail, and closes
// it. All methods may be called by several goroutines.
type Claim struct {
	hold *hold
	end  func(outcome)
}

// Context is cancelled when the claim is lost, with a [*ClaimLostError] as its cause, and when the claim is closed. It has
// the values of the caller's context, and neither its cancellation nor its deadline.
func (c *Claim) Context() context.Context { return c.hold.handler }

// Token is the fence, below 2^53: write it with the effect, and let the store refuse a lower one.
func (c *Claim) Token() int64 { return c.hold.granted.GetToken() }

// IdempotencyKey is the same on every attempt: hand it to a provider that deduplicates by such a key.
func (c *Claim) IdempotencyKey() string { return c.hold.granted.GetIdempotencyKey() }

// Attempt is which attempt this is, from 1 on.
func (c *Claim) Attempt() int { return int(c.hold.granted.GetAttempt()) }

// AttemptsLeft is how many attempts are left after this one; limited is false without a limit.
func (c *Claim) AttemptsLeft() (left int, limited bool) {
	return int(c.hold.granted.GetAttemptsLeft()), c.hold.granted.AttemptsLeft != nil
}

// EffectUnknown: an earlier attempt may have had its effect; look before an effect that is not idempotent is repeated.
func (c *Claim) EffectUnknown() bool { return c.hold.granted.GetEffectUnknown() }

// PriorEffectStarted: an earlier attempt had announced its effect. A handler sees this with Options.RepeatAnnounced alone.
func (c *Claim) PriorEffectStarted() bool { return c.hold.granted.GetPriorEffectStarted() }

// Checkpoint is what an earlier attempt saved; empty if there is nothing.
func (c *Claim) Checkpoint() []byte { return c.hold.granted.GetCheckpoint() }

// LastError is the error of the last failed attempt; empty if there is none.
func (c *Claim) LastError() string { return c.hold.granted.GetLastError() }

// OnExpiry is what becomes of this claim should its lease end: RECLAIM, PARK or PARK_IF_STARTED.
func (c *Claim) OnExpiry() string { return c.hold.onExpiry() }

// Names are the key of the claim as the ledger has it.
func (c *Claim) Names() (consumer string, key Key) {
	names := c.hold.request.GetKey()
	return names.GetConsumer(), Key{Source: names.GetSource(), ID: names.GetId(), ReplayRun: names.GetReplayRun()}
}

// HoldUntil is the instant at which the claim is over at the latest, whatever is renewed; zero if none is known.
func (c *Claim) HoldUntil() time.Time {
	c.hold.mu.Lock()
	defer c.hold.mu.Unlock()
	return c.hold.holdUntil
}

// Announced: Announce was called; the ledger may know that the effect was about to start.
func (c *Claim) Announced() bool {
	c.hold.mu.Lock()
	defer c.hold.mu.Unlock()
	return c.hold.announced
}

// Check returns a [*ClaimLostError] where the claim is not held any more. Call it before each part of a long effect.
func (c *Claim) Check() error { return c.hold.check() }

// Announce tells the ledger that an effect is about to start which can be neither fenced nor deduplicated. Start the effect
// after it has returned nil, and not otherwise. The announcement is repeated until the lease ends.
//
// It returns a [*NotProtectedError] where the policy would not park the message should this process die, an error that is
// [ErrNotAnnounced] where the ledger has not confirmed it, and a [*ClaimLostError]: return each of them from the handler.
func (c *Claim) Announce(ctx context.Context) error { return c.hold.announce(ctx) }

// Save stores progress that the next attempt finds, at most 16 KiB by default. It returns [ErrCheckpointDropped] where it is
// not stored since it is larger, and a [*ClaimLostError].
func (c *Claim) Save(ctx context.Context, checkpoint []byte) error {
	return c.hold.save(ctx, checkpoint)
}

// Complete settles: the effect is done. The result is what later deliveries are answered; one of more than 16 KiB by default
// is not stored. Nothing that follows is settled any more. It takes 20 s at most.
func (c *Claim) Complete(result []byte) Outcome[[]byte] { return c.hold.complete(result, false) }

// Fail settles by what the error says, as if a handler had returned it. It takes 20 s at most.
func (c *Claim) Fail(err error) Outcome[[]byte] { return c.hold.fail(err) }

// Close ends the claim. One that is not settled stays so: its lease ends by itself, and the next attempt finds EffectUnknown.
// Close of a nil Claim does nothing, so that it may be deferred right after Begin.
func (c *Claim) Close() {
	if c != nil {
		c.end(c.hold.fail(errInterrupted))
	}
}
