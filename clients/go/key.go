package ledger

import (
	"fmt"
	"unicode/utf8"
)

const (
	consumerMax  = 128
	sourceMax    = 256
	idMax        = 512
	replayRunMax = 64
	ownerMax     = 128
)

// Key is the name of a message: the source and id of its producer, the same on each delivery. Keys are compared as bytes.
//
// A message whose source or id is beyond its bound is itself at fault: nothing is sent to the ledger, and its outcome is
// [DeadLetter], with an [*InvalidFieldError] in Outcome.Err.
type Key struct {
	// Source is the producer: 1 to 256 bytes of UTF-8 without control characters.
	Source string
	// ID is unique within its source: 1 to 512 bytes of UTF-8 without control characters.
	ID string
	// ReplayRun is the replay that the delivery belongs to: at most 64 of A-Z, a-z, 0-9, '.', '_' and '-'. Empty: live.
	// One that is beyond this is an error of the program, which Process returns.
	ReplayRun string
}

// CloudEvent is what [KeyFromCloudEvent] reads: the event of the CloudEvents SDK for Go has both methods.
type CloudEvent interface {
	ID() string
	Source() string
}

// KeyFromCloudEvent returns the key of a CloudEvent. An event without source or id is dead-lettered, as [Key] says.
func KeyFromCloudEvent(event CloudEvent) Key {
	return Key{Source: event.Source(), ID: event.ID()}
}

// fault is why the ledger would refuse the message; nil if it would not.
func (k Key) fault() *InvalidFieldError {
	if fault := textFault("key.source", k.Source, sourceMax); fault != nil {
		return fault
	}
	return textFault("key.id", k.ID, idMax)
}

// replayRunFault is why the program's replay run would be refused; nil if it would not.
func (k Key) replayRunFault() error {
	for _, c := range []byte(k.ReplayRun) {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (c < '0' || '9' < c) && c != '.' && c != '_' && c != '-' {
			return &InvalidFieldError{"key.replay_run", "only A-Z, a-z, 0-9, '.', '_' and '-' are allowed"}
		}
	}
	if len(k.ReplayRun) > replayRunMax {
		return &InvalidFieldError{"key.replay_run", fmt.Sprintf("has %d bytes; at most %d are allowed", len(k.ReplayRun), replayRunMax)}
	}
	return nil
}

// textFault is why a text may not be a part of a key; nil if it may.
func textFault(field, text string, most int) *InvalidFieldError {
	if len(text) < 1 || len(text) > most {
		return &InvalidFieldError{field, fmt.Sprintf("has %d bytes of UTF-8; 1 to %d are allowed", len(text), most)}
	}
	if !utf8.ValidString(text) {
		return &InvalidFieldError{field, "is not valid UTF-8"}
	}
	for _, r := range text {
		if r < 0x20 || 0x7F <= r && r < 0xA0 {
			return &InvalidFieldError{field, "has a control character"}
		}
	}
	return nil
}
