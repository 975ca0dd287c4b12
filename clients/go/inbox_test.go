package ledger

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"
	"idempotency-ledger.internal/ledger/ledgerv1"
)

func TestMessageBeyondABoundIsDeadLetteredAndNotSent(t *testing.T) {
	long := strings.Repeat("x", 257)
	for field, message := range map[string]Message{
		"message.payload":       {Payload: make([]byte, payloadMax+1)},
		"message.topic":         {Topic: long},
		"message.message_key":   {MessageKey: make([]byte, 513)},
		"message.event_type":    {EventType: "\xff"},
		"message.event_version": {EventVersion: long},
		"message.content_type":  {ContentType: long},
		"message.headers.name":  {Headers: []Header{{"", nil}}},
		"message.headers":       {Headers: []Header{{"h", make([]byte, headersSizeMax)}}},
	} {
		f := &fake{}
		found, err := f.client(t, Options{}).Store(t.Context(), Key{Source: "shop", ID: "1"}, message)
		var fault *InvalidFieldError
		if err != nil || found.Advice != DeadLetter || !errors.As(found.Err, &fault) || fault.Field != field || len(f.sent) != 0 {
			t.Errorf("%s: %+v, %v, %d calls", field, found, err, len(f.sent))
		}
	}
}

func TestStoreOfAReplayRunIsRefused(t *testing.T) {
	f := &fake{}
	_, err := f.client(t, Options{}).Store(t.Context(), Key{Source: "s", ID: "i", ReplayRun: "r"}, Message{})
	var fault *InvalidFieldError
	if !errors.As(err, &fault) || len(f.sent) != 0 {
		t.Fatal(err)
	}
}

func TestVerdictOfStoreBecomesAnOutcome(t *testing.T) {
	ack, dead := ledgerv1.Advice_ADVICE_ACK, ledgerv1.Advice_ADVICE_DEAD_LETTER
	for what, test := range map[string]struct {
		answer   *ledgerv1.StoreResponse
		err      error
		advice   Advice
		reason   string
		replayed bool
	}{
		"stored":        {&ledgerv1.StoreResponse{Advice: ack, Verdict: &ledgerv1.StoreResponse_Stored{}}, nil, Ack, "", false},
		"already":       {&ledgerv1.StoreResponse{Advice: ack, Verdict: &ledgerv1.StoreResponse_AlreadyStored{}}, nil, Ack, "already_stored", true},
		"completed":     {&ledgerv1.StoreResponse{Advice: ack, Verdict: &ledgerv1.StoreResponse_Completed{}}, nil, Ack, "completed", true},
		"failed":        {&ledgerv1.StoreResponse{Advice: dead, Verdict: &ledgerv1.StoreResponse_Failed{}}, nil, DeadLetter, "failed", false},
		"no verdict":    {&ledgerv1.StoreResponse{Advice: ack}, nil, RetryLater, "UNKNOWN_VERDICT", false},
		"no advice":     {&ledgerv1.StoreResponse{Verdict: &ledgerv1.StoreResponse_Stored{}}, nil, RetryLater, "stored", false},
		"INBOX_OFF":     {nil, &refusal{code: codes.FailedPrecondition, reason: "INBOX_OFF"}, RetryLater, "INBOX_OFF", false},
		"BACKLOG_FULL":  {nil, &refusal{code: codes.ResourceExhausted, reason: "BACKLOG_FULL", after: "60000"}, RetryLater, "BACKLOG_FULL", false},
		"a mismatch":    {&ledgerv1.StoreResponse{Advice: dead, Verdict: &ledgerv1.StoreResponse_FingerprintMismatch{}}, nil, DeadLetter, "fingerprint_mismatch", false},
		"not in window": {&ledgerv1.StoreResponse{Advice: dead, Verdict: &ledgerv1.StoreResponse_OutsideWindow{}}, nil, DeadLetter, "outside_window", false},
	} {
		f := &fake{store: func(context.Context) (*ledgerv1.StoreResponse, error) { return test.answer, test.err }}
		found, err := f.client(t, Options{}).Store(t.Context(), Key{Source: "s", ID: "i"}, Message{Payload: []byte("p")})
		if err != nil || found.Advice != test.advice || found.Reason != test.reason || found.Replayed != test.replayed ||
			(found.Delay > 0) != (test.advice == RetryLater) {
			t.Errorf("%s: %+v, %v", what, found, err)
		}
		if test.reason == "BACKLOG_FULL" && found.Delay != time.Minute {
			t.Errorf("the delay is %v", found.Delay)
		}
	}
}

// handed is a handout of these messages with a lease of 30 s.
func handed(attempt int32, ids ...string) *ledgerv1.ClaimNextResponse {
	answer := &ledgerv1.ClaimNextResponse{}
	for _, id := range ids {
		answer.Messages = append(answer.Messages, &ledgerv1.Handed{
			Key: &ledgerv1.EntryKey{Consumer: "tests", Source: "shop", Id: id}, Message: &ledgerv1.Message{Payload: []byte(id)},
			Acquired: &ledgerv1.Acquired{Token: 7, Attempt: attempt, EffectUnknown: attempt > 1, Lease: durationpb.New(30 * time.Second)},
		})
	}
	return answer
}

func TestHandoutAfterAWaitBeyondItsLeaseIsRenewedConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := []*ledgerv1.ClaimNextResponse{handed(1, "1", "2", "3")}
		f := &fake{}
		f.next = func(_ context.Context, request *ledgerv1.ClaimNextRequest) (*ledgerv1.ClaimNextResponse, error) {
			if len(answers) == 0 {
				time.Sleep(request.GetWait().AsDuration())
				return &ledgerv1.ClaimNextResponse{}, nil
			}
			time.Sleep(31 * time.Second) // Each message has a lease of 30 s from before the call.
			answer := answers[0]
			answers = nil
			return answer, nil
		}
		f.renew = func(context.Context, *ledgerv1.RenewRequest) (*ledgerv1.RenewResponse, error) {
			time.Sleep(time.Second)
			return &ledgerv1.RenewResponse{Lease: durationpb.New(30 * time.Second)}, nil
		}
		ctx, stop := context.WithCancel(t.Context())
		work, began := time.Now(), make(chan time.Duration, 3)
		ended := make(chan error)
		go func() {
			ended <- Work(ctx, f.client(t, Options{}), func(context.Context, *Claim, StoredMessage) (None, error) {
				began <- time.Since(work)
				return None{}, nil
			}, WorkOptions{Concurrency: 3})
		}()
		for range 3 {
			if after := <-began; after < 31*time.Second || after > 33*time.Second {
				t.Errorf("a handler began after %v", after)
			}
		}
		stop()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	})
}

func TestWorkRunsWhatItIsHandedAndReleasesWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := []*ledgerv1.ClaimNextResponse{handed(1, "1", "2", "3"), {RetryAfter: durationpb.New(time.Second)}}
		f := &fake{}
		f.next = func(ctx context.Context, request *ledgerv1.ClaimNextRequest) (*ledgerv1.ClaimNextResponse, error) {
			if len(answers) == 0 {
				time.Sleep(request.GetWait().AsDuration())
				return &ledgerv1.ClaimNextResponse{}, nil
			}
			answer := answers[0]
			answers = answers[1:]
			return answer, nil
		}
		l := f.client(t, Options{})
		ctx, stop := context.WithCancel(t.Context())
		began, ended := make(chan string, 3), make(chan error)
		go func() {
			ended <- Work(ctx, l, func(_ context.Context, _ *Claim, message StoredMessage) (None, error) {
				began <- message.Key.ID + string(message.Payload)
				time.Sleep(40 * time.Second) // Longer than a lease: it is renewed, and so is the one that waits.
				return None{}, nil
			}, WorkOptions{Concurrency: 2, Grace: time.Minute})
		}()
		time.Sleep(35 * time.Second)
		stop()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if names := []string{<-began, <-began}; !slices.Contains(names, "11") || !slices.Contains(names, "22") || len(began) > 0 {
			t.Errorf("handlers of %v began", names)
		}
		if completes, releases, renews := f.of("Complete"), f.of("Release"), f.of("Renew"); len(completes) != 2 || len(releases) != 1 || len(renews) < 9 {
			t.Errorf("%d completes, %d releases, %d renewals", len(completes), len(releases), len(renews))
		}
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := Work(t.Context(), l, func(context.Context, *Claim, StoredMessage) (None, error) { return None{}, nil }, WorkOptions{}); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

func TestWorkRepeatsALostClaimNextWithItsClaimID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		f := &fake{}
		ctx, stop := context.WithCancel(t.Context())
		f.next = func(context.Context, *ledgerv1.ClaimNextRequest) (*ledgerv1.ClaimNextResponse, error) {
			if tries++; tries < 60 { // Longer than the budget of one call.
				return nil, errHop
			}
			stop()
			return &ledgerv1.ClaimNextResponse{}, nil
		}
		err := Work(ctx, f.client(t, Options{}), func(context.Context, *Claim, StoredMessage) (None, error) { return None{}, nil }, WorkOptions{})
		calls := f.of("ClaimNext")
		if err != nil || len(calls) != 60 || slices.ContainsFunc(calls, func(call sent) bool { return call.raw != calls[0].raw }) {
			t.Errorf("%v, %d calls", err, len(calls))
		}
	})
}

func queued(concurrency int) *workQueue {
	return &workQueue{concurrency: concurrency, lease: 30 * time.Second, running: map[Key]*workItem{}}
}

func (q *workQueue) handed(attempt int32, ids ...string) {
	var items []*workItem
	for _, message := range handed(attempt, ids...).GetMessages() {
		items = append(items, &workItem{hold: &hold{granted: message.Acquired}, message: storedMessage(message)})
	}
	q.add(items)
}

func TestNoMessageBeginsAfterAHandlerHasPanicked(t *testing.T) {
	for what, ends := range map[string]func(){"a panic": func() { panic("a bug") }, "runtime.Goexit": runtime.Goexit, "a return": func() {}} {
		began := make(chan string, 2)
		w := &worker{changed: make(chan struct{}, 1), queue: *queued(1)}
		w.run = func(item *workItem) {
			if began <- item.message.Key.ID; item.message.Key.ID == "1" {
				ends()
			}
		}
		w.queue.handed(1, "1", "2")
		first := w.queue.next()
		died := make(chan any)
		go func() {
			defer func() { died <- recover() }()
			w.serve(first)
		}()
		if cause := <-died; (cause != nil) != (what == "a panic") || <-began != "1" {
			t.Errorf("%s: %v", what, cause)
		}
		w.mu.Lock()
		if waits := len(w.queue.waiting) == 1; waits != (what == "a panic") {
			t.Errorf("%s: the next message waits: %v", what, waits)
		}
		w.mu.Unlock()
	}
}

func TestRoomIsSizedByLeaseAndHandlerTime(t *testing.T) {
	for took, most := range map[time.Duration]int{0: 4, time.Millisecond: 40, 5 * time.Second: 12, 15 * time.Second: 4, time.Minute: 4} {
		q := queued(4)
		if took > 0 {
			q.handed(1, "1")
			q.end(q.next(), took)
		}
		if room := q.room(); room != most {
			t.Errorf("with handlers of %v it asks for %d, not %d", took, room, most)
		}
	}
}

func TestASuspectWhoseClaimIsLostHoldsUpNoOther(t *testing.T) {
	q := queued(4)
	q.handed(1, "1")
	q.next()
	q.handed(3, "2")
	if q.next() != nil || q.room() != 0 {
		t.Fatal("a suspect runs next to others")
	}
	q.waiting[0].hold.lost = "LEASE_LOST"
	if q.room() != 2 {
		t.Fatalf("it asks for %d", q.room())
	}
	q.handed(1, "3")
	if lost, third := q.next(), q.next(); lost == nil || third == nil || lost.message.Key.ID != "2" || third.message.Key.ID != "3" {
		t.Fatal("a suspect whose claim is lost holds up others")
	}
}

func TestNextRunsNoMessageTwiceAndASuspectAlone(t *testing.T) {
	q := queued(3)
	q.handed(1, "1", "1", "2")
	first, second := q.next(), q.next()
	if first.message.Key.ID != "1" || second.message.Key.ID != "2" || q.next() != nil {
		t.Fatal("one message runs twice")
	}
	q.end(first, time.Second)
	q.handed(3, "3")
	again := q.next()
	if again.message.Key.ID != "1" || q.next() != nil || q.room() != 0 {
		t.Fatal("a suspect runs next to others")
	}
	q.end(second, time.Second)
	q.end(again, time.Second)
	suspect := q.next()
	q.handed(1, "4")
	if !suspect.alone || q.next() != nil || q.room() != 0 {
		t.Fatal("others run next to a suspect")
	}
	q.end(suspect, time.Second)
	if q.next() == nil || q.room() == 0 || len(q.drain()) != 0 {
		t.Fatal("nothing runs after a suspect")
	}
	if fmt.Sprint(q.wait()) != "5s" {
		t.Errorf("a call waits for %v", q.wait())
	}
}
