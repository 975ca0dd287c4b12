package ledger

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

func TestSteerErrorsAreTheirSentinels(t *testing.T) {
	cause := errors.New("cause")
	sentinels := []error{ErrRetry, ErrTerminal, ErrPark, ErrDoubtful, ErrGiveBack}
	for at, each := range []*SteerError{Retry("r").After(time.Second), Terminal("r"), Park("r"), Doubtful("r").Because(cause), GiveBack("r").Unpin()} {
		wrapped := fmt.Errorf("wrapped: %w", each)
		for other, sentinel := range sentinels {
			if errors.Is(wrapped, sentinel) != (at == other) {
				t.Errorf("%v is %v: %v", each, sentinel, at != other)
			}
		}
	}
	if !errors.Is(Doubtful("r").Because(cause), cause) {
		t.Error("the cause is not found")
	}
	if !errors.Is(ErrNotAnnounced, ErrRetry) || errors.Is(ErrRetry, ErrNotAnnounced) {
		t.Error("an announcement that is not confirmed is another kind of error")
	}
}

func TestSteerErrorsAreNotChangedByTheirMethods(t *testing.T) {
	shared := GiveBack("shared")
	_ = shared.After(time.Second)
	_ = shared.Unpin()
	_ = shared.Because(errors.New("cause"))
	if *shared != *GiveBack("shared") {
		t.Errorf("it has become %+v", shared)
	}
}
