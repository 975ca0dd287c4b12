package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"idempotency-ledger.internal/ledger"
	"subjects/wire"
)

// raised is the error that a step names.
func raised(step wire.Step) error {
	switch step.Error {
	case "Retry":
		if step.After != nil {
			return ledger.Retry(step.Text).After(seconds(*step.After))
		}
		return ledger.Retry(step.Text)
	case "Terminal":
		return fmt.Errorf("wrapped: %w", ledger.Terminal(step.Text))
	case "Park":
		return ledger.Park(step.Text)
	case "Doubtful":
		return ledger.ErrDoubtful
	case "GiveBack":
		if step.Unpin {
			return ledger.GiveBack("").Unpin()
		}
		return ledger.ErrGiveBack
	}
	return errors.New(step.Text)
}

// handler takes the steps of a delivery.
func handler(command wire.Command) func(context.Context, *ledger.Claim) ([]byte, error) {
	call := command.Call
	going := wire.Going(call)
	return func(ctx context.Context, claim *ledger.Claim) ([]byte, error) {
		wire.Started(claim, call)
		for _, step := range command.Steps {
			switch step.Do {
			case "effect":
				wire.Say("effect", wire.Fields{"call": call, "id": command.ID, "token": wire.Text(claim.Token()),
					"idempotency_key": claim.IdempotencyKey()})
				<-going
			case "pause":
				if err := paused(ctx, call, going); err != nil {
					return nil, err
				}
			case "announce":
				if err := claim.Announce(ctx); err != nil {
					return nil, err
				}
			case "save":
				err := claim.Save(ctx, step.Content(step.Checkpoint))
				if errors.Is(err, ledger.ErrCheckpointDropped) {
					wire.Say("dropped", wire.Fields{"call": call})
				} else if err != nil {
					return nil, err
				}
			case "complete":
				claim.Complete(step.Content(step.Result))
			case "die":
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				<-going
			case "raise":
				return nil, raised(step)
			case "return":
				return step.Content(step.Result), nil
			}
		}
		return nil, nil
	}
}

// paused waits to go on, or for the loss of the claim.
func paused(ctx context.Context, call string, going chan struct{}) error {
	wire.Say("paused", wire.Fields{"call": call})
	select {
	case <-going:
		return nil
	case <-ctx.Done():
		var lost *ledger.ClaimLostError
		if errors.As(context.Cause(ctx), &lost) {
			wire.Say("lost", wire.Fields{"call": call, "reason": lost.Reason})
		}
		return context.Cause(ctx)
	}
}
