package ledger

import (
	"errors"
	"fmt"
)

// ErrClosed is returned where the client is closed, or closes: nothing was sent. Let the broker deliver the message again.
var ErrClosed = errors.New("ledger: the client is closed")

// ErrCheckpointDropped is returned by [Claim.Save] where the checkpoint is larger than the server's bound, 16 KiB by
// default: the earlier checkpoint stays stored.
var ErrCheckpointDropped = errors.New("ledger: the checkpoint is larger than the server's bound; the earlier one stays")

// InvalidFieldError reports a field that is beyond its bound; nothing was sent.
type InvalidFieldError struct {
	// Field is the field's name as in the protobuf files, such as "key.source", or the option's, such as "lease".
	Field string
	// Bound says what is wrong, and what is allowed.
	Bound string
}

// Error names the field and its bound.
func (e *InvalidFieldError) Error() string { return "ledger: " + e.Field + ": " + e.Bound }

// ClaimLostError reports that the lease of the claim has ended, or that the ledger has refused to renew it: write nothing
// more. It is the cause ([context.Cause]) of the handler's context from then on.
type ClaimLostError struct {
	// Reason is LEASE_OVER where the lease ended by this process's clock, else the ledger's reason, such as LEASE_LOST.
	Reason string
}

// Error names the reason.
func (e *ClaimLostError) Error() string {
	return fmt.Sprintf("ledger: the claim is lost (%s): another attempt may be running", e.Reason)
}

// NotProtectedError is returned by [Claim.Announce] where the claim's policy would not park the message: nothing was sent.
//
// Set on_expiry = "PARK_IF_STARTED" (or "PARK") in the consumer's policy. A handler that returns this error gives the claim
// back, with a delay of 5 s.
type NotProtectedError struct {
	// OnExpiry is the claim's on_expiry, such as RECLAIM.
	OnExpiry string
}

// Error names the claim's on_expiry.
func (e *NotProtectedError) Error() string {
	return fmt.Sprintf("ledger: on_expiry of this claim is %s: an announced effect would not be parked", e.OnExpiry)
}
