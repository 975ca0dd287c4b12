package ledger

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
)

const (
	spoolVersion   = 1
	spoolResultMax = 16_384 // bytes; the ledger stores no larger result
)

// ErrSpool is wrapped by each error of a [Spool]: it cannot be written, or not any more, so an effect that it does not have
// must not begin.
//
// After a write or a sync has failed, nothing more is written to the same file: what the system has lost of it is not known.
// Mend the disk, and open another file.
var ErrSpool = errors.New("ledger: the spool cannot be written")

// Spool is a file of effects that happen without a claim, while the ledger cannot be reached. docs/away.md of the ledger says
// when a consumer may have one, and describes the file: "idempotency-ledger entries reconcile FILE" brings it in afterwards.
//
// One process writes a spool; its goroutines may share it.
type Spool struct {
	mu     sync.Mutex
	file   spoolFile
	failed error
	last   time.Time
}

// spoolFile is what a Spool does with its file.
type spoolFile interface {
	Write([]byte) (int, error)
	Sync() error
	Close() error
}

// spoolLine is a line of the file. Its fields are in the order of docs/away.md.
type spoolLine struct {
	V           int    `json:"v"`
	Event       string `json:"event"`
	Row         string `json:"row"`
	At          string `json:"at"`
	Consumer    string `json:"consumer"`
	Source      string `json:"source"`
	ID          string `json:"id"`
	Fingerprint string `json:"fingerprint_hex,omitempty"`
	Result      string `json:"result_base64,omitempty"`
}

// OpenSpool opens the file, on a local disk that outlives the process. It is made if it does not exist, readable for its owner
// alone, since it has the results. An error wraps [ErrSpool]: the file cannot be opened, another process has it, or the system
// has no file locks.
func OpenSpool(path string) (*Spool, error) {
	file, err := openedSpool(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSpool, err)
	}
	return &Spool{file: file}, nil
}

// openedSpool is the file, locked, at the beginning of a line; its folder is synced, so that a new file outlives a crash.
func openedSpool(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	prepare := func() error {
		if err := lockSpool(file); err != nil {
			return fmt.Errorf("another process, or another Spool of this one, has the file: %w", err)
		}
		about, err := file.Stat()
		if err != nil {
			return err
		}
		last := make([]byte, 1)
		if about.Size() > 0 {
			if _, err := file.ReadAt(last, about.Size()-1); err != nil {
				return err
			}
			// A line that a crash has cut off ends here: the next one must not continue it.
			if last[0] != '\n' {
				if _, err := file.Write([]byte("\n")); err != nil {
					return err
				}
			}
		}
		if err := file.Sync(); err != nil {
			return err
		}
		folder, err := os.Open(filepath.Dir(path))
		if err != nil {
			return err
		}
		return errors.Join(folder.Sync(), folder.Close())
	}
	if err := prepare(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// Close closes the file. An effect that still runs has no end in it.
func (s *Spool) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil && errors.Is(s.failed, os.ErrClosed) {
		return nil
	}
	s.failed = fmt.Errorf("%w: %w", ErrSpool, os.ErrClosed)
	return s.file.Close()
}

// ProcessAway runs the effect where found, the outcome of [Process], says that the ledger is away, and returns any other outcome
// as it is.
//
// The beginning is on the disk before the effect is called, and its end before ProcessAway returns. The outcome is then: Ack
// where the effect has returned, with its result; RetryLater where its error is [ErrRetry], [ErrTerminal] or [ErrGiveBack], since
// it certainly did not happen, or [ErrDoubtful]; DeadLetter, for a person to look, with any other error. A panic goes on, and
// leaves the beginning alone. Where the spool cannot be written the outcome is RetryLater and its Err wraps [ErrSpool]: the effect
// has not begun, or it has ended and is not noted (EffectUnknown). A key of a replay run is never opened.
//
// The effect has no claim, no token and no protection from a redelivery. Of the options [Body] and [Fingerprint] count.
func ProcessAway[T any](
	ctx context.Context, s *Spool, l *Ledger, found Outcome[T], key Key, effect func(context.Context) (T, error), options ...DeliveryOption,
) (Outcome[T], error) {
	if effect == nil {
		return found, &InvalidFieldError{"effect", "must not be nil"}
	}
	request, err := l.request(key, options)
	if err != nil {
		return found, err
	}
	if !found.Away || key.ReplayRun != "" || ctx.Err() != nil {
		return found, nil
	}
	line := spoolLine{
		Row: newRow(), Consumer: l.consumer, Source: key.Source, ID: key.ID, Fingerprint: hex.EncodeToString(request.GetFingerprint()),
	}
	if err := s.append("begin", line); err != nil {
		found.Reason, found.Detail, found.Err = "SPOOL_FAILED", err.Error(), err
		return found, nil
	}
	value, err := effect(context.WithoutCancel(ctx))
	if err != nil {
		return typed[T](s.ended(line, err)), nil
	}
	encoded, wrong := encode(value)
	dropped := wrong != nil || len(encoded) > spoolResultMax
	if !dropped {
		line.Result = base64.StdEncoding.EncodeToString(encoded)
	}
	done := Outcome[T]{Advice: Ack, Result: value, HasResult: true, ResultDropped: dropped, Away: true}
	if err := s.append("end", line); err != nil {
		done.Advice, done.Delay, done.ResultDropped, done.EffectUnknown = RetryLater, defaultDelay, false, true
		done.Reason, done.Detail, done.Err = "SPOOL_FAILED", err.Error(), err
	}
	return done, nil
}

// ended is what an error of the effect says of it.
func (s *Spool) ended(line spoolLine, err error) outcome {
	found := later(typeName(err))
	found.Err, found.Away = err, true
	var steer *SteerError
	if errors.As(err, &steer) {
		found.Reason = steer.said()
		switch steer.kind {
		case retry, terminal, giveBack:
			// Without this line a person looks, and finds that it did not happen.
			_ = s.append("none", line)
			if steer.hasAfter {
				found.Delay = max(steer.after, shortestDelay)
			}
			return found
		case doubtful:
			found.EffectUnknown = true
			return found
		case park:
		}
	}
	found.Advice, found.Delay, found.EffectUnknown = DeadLetter, 0, true
	return found
}

// append appends a line, and returns when it is on the disk.
func (s *Spool) append(event string, line spoolLine) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil {
		return s.failed
	}
	// Later than all lines before: key and instant identify a row, and an end follows its beginning.
	now := time.Now().UTC().Truncate(time.Microsecond)
	if !now.After(s.last) {
		now = s.last.Add(time.Microsecond)
	}
	s.last = now
	line.V, line.Event, line.At = spoolVersion, event, now.Format("2006-01-02T15:04:05.000000Z")
	text, err := json.Marshal(line)
	if err == nil {
		_, err = s.file.Write(append(text, '\n'))
	}
	if err == nil {
		err = s.file.Sync()
	}
	if err != nil {
		s.failed = fmt.Errorf("%w: open another file: %w", ErrSpool, err)
	}
	return s.failed
}

// newRow names an effect: 128 random bits.
func newRow() string {
	row := make([]byte, 16)
	_, _ = rand.Read(row) // It never fails: crypto/rand ends the process instead.
	return hex.EncodeToString(row)
}

// away reports whether the ledger could not be reached, or could not serve. Any other error is an answer.
func (f *failure) away() bool {
	return f.code == codes.Unavailable || f.code == codes.DeadlineExceeded
}
