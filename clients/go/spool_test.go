package ledger

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"idempotency-ledger.internal/ledger/ledgerv1"
)

var (
	spoolKey = Key{Source: "shop", ID: "order-1"}
	awayNow  = Outcome[[]byte]{Advice: RetryLater, Delay: time.Second, Reason: "NO_ANSWER (Unavailable)", Away: true}
)

// spooled opens a spool in a folder of the test's own.
func spooled(t *testing.T) (*Spool, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "spool.jsonl")
	spool, err := OpenSpool(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = spool.Close() })
	return spool, path
}

func spoolLines(t *testing.T, path string) []spoolLine {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var lines []spoolLine
	for _, line := range bytes.Split(bytes.TrimRight(text, "\n"), []byte("\n")) {
		var read spoolLine
		if len(line) > 0 && json.Unmarshal(line, &read) == nil {
			lines = append(lines, read)
		}
	}
	return lines
}

func spoolEvents(t *testing.T, path string) []string {
	t.Helper()
	var events []string
	for _, line := range spoolLines(t, path) {
		events = append(events, line.Event)
	}
	return events
}

func away(t *testing.T, s *Spool, found Outcome[[]byte], key Key, effect func(context.Context) ([]byte, error), options ...DeliveryOption) Outcome[[]byte] {
	t.Helper()
	l := (&fake{}).client(t, Options{})
	done, err := ProcessAway(t.Context(), s, l, found, key, effect, options...)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

func TestOnlyAClaimThatWasNotAnsweredIsAway(t *testing.T) {
	for _, test := range []struct {
		name string
		err  error
		away bool
	}{
		{"unavailable", &refusal{code: codes.Unavailable}, true},
		{"deadline exceeded", &refusal{code: codes.DeadlineExceeded}, true},
		{"a store that is away", &refusal{code: codes.Unavailable, reason: "STORE_UNAVAILABLE"}, true},
		{"internal", errHop, false},
		{"unknown", &refusal{code: codes.Unknown}, false},
		{"cancelled", &refusal{code: codes.Canceled}, false},
		{"overloaded", &refusal{code: codes.ResourceExhausted, reason: "OVERLOADED"}, false},
		{"not allowed", &refusal{code: codes.PermissionDenied, reason: "CONSUMER_NOT_ALLOWED"}, false},
		{"an answer", nil, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{began: time.Now()}
				f.claim = func(context.Context) (*ledgerv1.ClaimResponse, error) {
					if test.err != nil {
						return nil, test.err
					}
					return &ledgerv1.ClaimResponse{Advice: ledgerv1.Advice_ADVICE_RETRY_LATER, Verdict: &ledgerv1.ClaimResponse_InProgress{}}, nil
				}
				l := f.client(t, Options{})
				found, err := Process(t.Context(), l, spoolKey, func(context.Context, *Claim) ([]byte, error) { return nil, nil })
				if err != nil || found.Away != test.away {
					t.Errorf("%v, away: %v", err, found.Away)
				}
			})
		})
	}
}

func TestAnEffectIsWrittenDownBeforeAndAfter(t *testing.T) {
	spool, path := spooled(t)
	var during []string
	found := away(t, spool, awayNow, spoolKey, func(context.Context) ([]byte, error) {
		during = spoolEvents(t, path)
		return []byte("paid"), nil
	}, Body([]byte("body")))
	if found.Advice != Ack || string(found.Result) != "paid" || found.ResultDropped {
		t.Errorf("%+v", found)
	}
	if !slices.Equal(during, []string{"begin"}) {
		t.Errorf("during the effect: %v", during)
	}
	lines := spoolLines(t, path)
	if len(lines) != 2 || lines[1].Event != "end" || lines[1].Result != "cGFpZA==" || lines[0].Row != lines[1].Row || lines[0].At >= lines[1].At {
		t.Fatalf("%+v", lines)
	}
	first := lines[0]
	if first.V != 1 || first.Consumer != "tests" || first.Source != "shop" || first.ID != "order-1" || len(first.Fingerprint) != 64 {
		t.Errorf("%+v", first)
	}
	if about, err := os.Stat(path); err != nil || about.Mode().Perm()&0o077 != 0 {
		t.Errorf("%v %v", about.Mode(), err)
	}
}

// script is a file that notes what is done to it, and fails from one step on.
type script struct {
	steps []string
	fails int // the step that fails first; 0: none
}

var errDisk = errors.New("no space left on device")

func (s *script) step(name string) error {
	s.steps = append(s.steps, name)
	if s.fails > 0 && len(s.steps) >= s.fails {
		return errDisk
	}
	return nil
}

func (s *script) Write(line []byte) (int, error) {
	var read spoolLine
	if err := json.Unmarshal(line, &read); err != nil {
		return 0, err
	}
	return len(line), s.step(read.Event)
}
func (s *script) Sync() error  { return s.step("sync") }
func (s *script) Close() error { return nil }

func TestABeginningIsSyncedBeforeTheEffect(t *testing.T) {
	for _, test := range []struct {
		fails   int
		steps   string
		advice  Advice
		unknown bool
	}{
		{0, "begin sync effect end sync", Ack, false},
		{1, "begin", RetryLater, false},
		{2, "begin sync", RetryLater, false},
		{4, "begin sync effect end", RetryLater, true},
		{5, "begin sync effect end sync", RetryLater, true},
	} {
		file := &script{fails: test.fails}
		spool := &Spool{file: file}
		effect := func(context.Context) ([]byte, error) {
			file.steps = append(file.steps, "effect")
			return nil, nil
		}
		found := away(t, spool, awayNow, spoolKey, effect)
		if strings.Join(file.steps, " ") != test.steps || found.Advice != test.advice || found.EffectUnknown != test.unknown {
			t.Errorf("step %d fails: %v, %+v", test.fails, file.steps, found)
		}
		if test.fails == 0 {
			continue
		}
		if !errors.Is(found.Err, ErrSpool) || found.Reason != "SPOOL_FAILED" {
			t.Errorf("step %d fails: %+v", test.fails, found)
		}
		// What the system has lost of the file is not known: it is not written any more, though it could be.
		steps := len(file.steps)
		file.fails = 0
		if again := away(t, spool, awayNow, spoolKey, effect); again.Reason != "SPOOL_FAILED" || len(file.steps) != steps {
			t.Errorf("step %d failed: %v, %+v", test.fails, file.steps, again)
		}
	}
}

func TestAnAnswerOfTheLedgerOpensNothing(t *testing.T) {
	spool, path := spooled(t)
	never := func(context.Context) ([]byte, error) {
		t.Error("the effect ran")
		return nil, nil
	}
	for _, found := range []Outcome[[]byte]{
		{Advice: Ack, Replayed: true},
		{Advice: RetryLater, Delay: time.Second, Reason: "in_progress"},
		{Advice: DeadLetter, Reason: "parked"},
	} {
		if done := away(t, spool, found, spoolKey, never); fmt.Sprint(done) != fmt.Sprint(found) {
			t.Errorf("%+v became %+v", found, done)
		}
	}
	if done := away(t, spool, awayNow, Key{Source: "shop", ID: "1", ReplayRun: "run"}, never); !done.Away || done.Advice != RetryLater {
		t.Errorf("in a replay run: %+v", done)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if done, err := ProcessAway(gone, spool, (&fake{}).client(t, Options{}), awayNow, spoolKey, never); err != nil || !done.Away {
		t.Errorf("its caller is gone: %+v %v", done, err)
	}
	if events := spoolEvents(t, path); events != nil {
		t.Errorf("%v", events)
	}
}

func TestAnErrorSaysWhetherTheEffectHappened(t *testing.T) {
	for _, test := range []struct {
		err     error
		events  string
		advice  Advice
		delay   time.Duration
		unknown bool
	}{
		{Retry("later").After(7 * time.Second), "begin none", RetryLater, 7 * time.Second, false},
		{fmt.Errorf("wrapped: %w", ErrTerminal), "begin none", RetryLater, time.Second, false},
		{ErrGiveBack, "begin none", RetryLater, time.Second, false},
		{ErrDoubtful, "begin", RetryLater, time.Second, true},
		{ErrPark, "begin", DeadLetter, 0, true},
		{errors.New(secret), "begin", DeadLetter, 0, true},
	} {
		spool, path := spooled(t)
		found := away(t, spool, awayNow, spoolKey, func(context.Context) ([]byte, error) { return nil, test.err })
		if strings.Join(spoolEvents(t, path), " ") != test.events {
			t.Errorf("%v: %v", test.err, spoolEvents(t, path))
		}
		if found.Advice != test.advice || found.Delay != test.delay || found.EffectUnknown != test.unknown || found.Err != test.err {
			t.Errorf("%v: %+v", test.err, found)
		}
		if strings.Contains(found.Reason, secret) {
			t.Errorf("the reason is %q", found.Reason)
		}
	}
}

func TestAPanicLeavesTheBeginningAlone(t *testing.T) {
	spool, path := spooled(t)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic has ended")
			}
		}()
		away(t, spool, awayNow, spoolKey, func(context.Context) ([]byte, error) { panic("oh") })
	}()
	if events := spoolEvents(t, path); !slices.Equal(events, []string{"begin"}) {
		t.Errorf("%v", events)
	}
}

func TestAResultBeyondTheBoundIsLeftOut(t *testing.T) {
	for size, dropped := range map[int]bool{spoolResultMax: false, spoolResultMax + 1: true} {
		spool, path := spooled(t)
		found := away(t, spool, awayNow, spoolKey, func(context.Context) ([]byte, error) { return make([]byte, size), nil })
		if found.Advice != Ack || found.ResultDropped != dropped || !found.HasResult || len(found.Result) != size {
			t.Errorf("%d bytes: dropped %v, %v", size, found.ResultDropped, found.Advice)
		}
		if lines := spoolLines(t, path); (lines[1].Result == "") != dropped {
			t.Errorf("%d bytes: %d in the file", size, len(lines[1].Result))
		}
	}
}

func TestOneProcessHasTheFile(t *testing.T) {
	if path := os.Getenv("SPOOL_OF_ANOTHER_PROCESS"); path != "" {
		_, err := OpenSpool(path)
		fmt.Println("refused:", errors.Is(err, ErrSpool) && strings.Contains(err.Error(), "has the file"))
		return
	}
	spool, path := spooled(t)
	if _, err := OpenSpool(path); !errors.Is(err, ErrSpool) || !strings.Contains(err.Error(), "has the file") {
		t.Errorf("%v", err)
	}
	other := exec.Command(os.Args[0], "-test.run=^TestOneProcessHasTheFile$", "-test.v")
	other.Env = append(os.Environ(), "SPOOL_OF_ANOTHER_PROCESS="+path)
	if said, err := other.CombinedOutput(); err != nil || !strings.Contains(string(said), "refused: true") {
		t.Errorf("%v %s", err, said)
	}
	if err := errors.Join(spool.Close(), spool.Close()); err != nil {
		t.Error(err)
	}
	if found := away(t, spool, awayNow, spoolKey, func(context.Context) ([]byte, error) { return nil, nil }); found.Reason != "SPOOL_FAILED" {
		t.Errorf("closed: %+v", found)
	}
	again, err := OpenSpool(path)
	if err != nil {
		t.Fatal(err)
	}
	_ = again.Close()
	if _, err := OpenSpool(filepath.Join(path, "below")); !errors.Is(err, ErrSpool) {
		t.Errorf("%v", err)
	}
}

func TestALineThatWasCutOffIsNotContinued(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool.jsonl")
	if err := os.WriteFile(path, []byte(`{"v":1,"ev`), 0o600); err != nil {
		t.Fatal(err)
	}
	spool, err := OpenSpool(path)
	if err != nil {
		t.Fatal(err)
	}
	away(t, spool, awayNow, spoolKey, func(context.Context) ([]byte, error) { return nil, nil })
	_ = spool.Close()
	text, _ := os.ReadFile(path)
	if !strings.HasPrefix(string(text), "{\"v\":1,\"ev\n{\"v\":1,\"event\":\"begin\"") || !slices.Equal(spoolEvents(t, path), []string{"begin", "end"}) {
		t.Errorf("%s", text)
	}
}

func TestLinesHaveInstantsOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // The clock stands still.
		file := &script{}
		spool := &Spool{file: file}
		var last string
		for range 100 {
			if err := spool.append("begin", spoolLine{}); err != nil {
				t.Fatal(err)
			}
			at := spool.last.Format(time.RFC3339Nano)
			if at <= last && len(at) == len(last) {
				t.Fatalf("%s after %s", at, last)
			}
			last = at
		}
	})
}
