package ledger

import (
	"errors"
	"log/slog"

	"idempotency-ledger.internal/ledger/internal/limit"
	"idempotency-ledger.internal/ledger/internal/logged"
)

// report is the log of one consumer: what its operators should know of deliveries, at most a line a second of each kind,
// without payloads, keys and tokens.
type report struct {
	consumer string
	logger   *slog.Logger
	// lines are limited by reasons and by types of errors.
	lines limit.Lines
}

// outcome logs a call that was refused or not answered, and an error of a handler that does not steer, or that a guard has made
// steer. Of an error its type is logged, and of the package's own *InvalidFieldError its text, which quotes no message.
func (r *report) outcome(found outcome) {
	var fault *InvalidFieldError
	if found.Reason == "INVALID_FIELD" && errors.As(found.Err, &fault) {
		r.warn(found.Reason, "a message is at fault", found, slog.String("detail", found.Detail))
		return
	}
	if found.Detail != "" {
		r.warn(found.Reason, "a call was refused or not answered", found, slog.String("detail", found.Detail))
	}
	var steer *SteerError
	var hidden *logged.Error
	switch {
	case errors.As(found.Err, &steer) && errors.As(found.Err, &hidden):
		r.warn("guard: "+steer.reason, "a guard has met an error; its text is in Outcome.Err", found, slog.String("type", typeName(hidden.Err)))
		return
	case errors.As(found.Err, &fault) && steer == nil:
		r.warn(found.Reason, "a handler has returned an error", found, slog.String("detail", fault.Error()))
		return
	}
	if found.Err != nil && !errors.As(found.Err, &steer) && !errors.Is(found.Err, errInterrupted) {
		name := typeName(found.Err)
		r.warn(name, "a handler has returned an error; its text is in Outcome.Err", found, slog.String("type", name))
	}
}

func (r *report) warn(kind, message string, found outcome, more slog.Attr) {
	suppressed, due := r.lines.Due(kind)
	if !due {
		return
	}
	r.logger.Warn(message, slog.String("consumer", r.consumer), slog.String("reason", found.Reason), more,
		slog.String("advice", found.Advice.String()), slog.Int("suppressed", suppressed))
}
