package kafkaledger

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"idempotency-ledger.internal/ledger"
	"idempotency-ledger.internal/ledger/brokers"
	"idempotency-ledger.internal/ledger/internal/adapter"
)

// kept is the client as the list of partitions sees it.
type kept struct {
	marked int64
	paused bool
}

func (k *kept) MarkCommitOffsets(offsets map[string]map[int32]kgo.EpochOffset) {
	k.marked = offsets["orders"][0].Offset
}

func (k *kept) PauseFetchPartitions(map[string][]int32) map[string][]int32 {
	k.paused = true
	return nil
}

func (k *kept) ResumeFetchPartitions(map[string][]int32) { k.paused = false }

func started(t *testing.T) (*run, *kept) {
	t.Helper()
	client := ledger.Must(ledger.New("c", ledger.Options{Endpoint: "127.0.0.1:1"}))
	pool, err := adapter.New(t.Context(), adapter.Settings{Ledger: client})
	if err != nil {
		t.Fatal(err)
	}
	client.Close(context.Background())
	offsets := &kept{marked: -1}
	return &run{Consumer: Consumer{Topic: "orders", Retry: "retry"}, pool: pool, offsets: offsets, partitions: map[place]*partition{}}, offsets
}

func record(offset int64) *kgo.Record { return &kgo.Record{Topic: "orders", Offset: offset} }

func TestNothingIsCommittedPastAHole(t *testing.T) {
	r, offsets := started(t)
	var taken []*message
	for _, offset := range []int64{7, 8, 10, 11} { // 9 is not a message.
		taken = append(taken, r.begin(record(offset)))
	}
	for _, step := range []struct{ done, marked int64 }{{1, -1}, {2, -1}, {0, 11}, {3, 12}} {
		r.done(taken[step.done])
		if offsets.marked != step.marked {
			t.Errorf("after message %d offset %d is marked, not %d", step.done, offsets.marked, step.marked)
		}
	}
}

func TestHeldMessageStopsItsPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, offsets := started(t)
		first, second := r.begin(record(1)), r.begin(record(2))
		r.hold(first, time.Minute)
		r.done(second)
		if !offsets.paused || offsets.marked != -1 || len(r.dueAgain(1)) != 0 {
			t.Fatalf("paused: %v, marked: %d", offsets.paused, offsets.marked)
		}
		woken := false
		r.wakeBy(func() { woken = true })
		time.Sleep(time.Minute)
		synctest.Wait()
		if again := r.dueAgain(1); !woken || len(again) != 1 || again[0] != first {
			t.Fatalf("woken: %v, due: %v", woken, again)
		}
		r.hold(first, time.Minute) // It may be held again.
		time.Sleep(time.Minute)
		synctest.Wait()
		r.done(r.dueAgain(2)[0])
		if offsets.paused || offsets.marked != 3 {
			t.Errorf("paused: %v, marked: %d", offsets.paused, offsets.marked)
		}
	})
}

func TestRevokedPartitionIsNotCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, offsets := started(t)
		running, held := r.begin(record(1)), r.begin(record(2))
		r.hold(held, time.Second)
		r.lost(t.Context(), nil, map[string][]int32{"orders": {0}, "other": {1}})
		if running.partition.ctx.Err() == nil || offsets.paused {
			t.Error("what has not begun goes on, or the partition stays paused")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		r.done(running)
		if offsets.marked != -1 || len(r.dueAgain(2)) != 0 {
			t.Errorf("offset %d is marked", offsets.marked)
		}
		if again := r.begin(record(1)); again.partition == running.partition || again.partition.ctx.Err() != nil {
			t.Error("the partition that is assigned again is the revoked one")
		}
	})
}

func TestAttemptAtAnotherMemberIsAskedForEachSecond(t *testing.T) {
	r, _ := started(t)
	m := r.begin(record(1))
	ask := func(retry, reason string) (time.Duration, bool) {
		r.Retry = retry
		return r.heldFor(m, adapter.Verdict{Advice: ledger.RetryLater, Delay: time.Minute, Reason: reason})
	}
	for _, held := range []bool{false, true} {
		m.held = held
		if delay, isHeld := ask("", inProgress); delay != time.Second || !isHeld {
			t.Errorf("held: %v; it is held for %v: %v", held, delay, isHeld)
		}
		if delay, isHeld := ask("", "backoff"); delay != time.Minute || !isHeld {
			t.Errorf("held: %v; a back-off lasts %v: %v", held, delay, isHeld)
		}
		if _, isHeld := ask("retry", inProgress); isHeld == held { // Once, and then it is copied.
			t.Errorf("held: %v; with a retry topic it is held: %v", held, isHeld)
		}
		if _, isHeld := ask("retry", "backoff"); isHeld {
			t.Error("a back-off holds up the partition though there is a retry topic")
		}
	}
	if _, isHeld := r.heldFor(m, adapter.Verdict{Advice: ledger.Ack, Reason: inProgress}); isHeld {
		t.Error("a message that is done is held")
	}
}

func TestCopyThatIsNotDueIsHeld(t *testing.T) {
	r, offsets := started(t)
	header := kgo.RecordHeader{Key: DueHeader, Value: milliseconds(time.Now().Add(time.Hour))}
	if r.begin(&kgo.Record{Topic: "retry", Headers: []kgo.RecordHeader{header}}) != nil || !offsets.paused {
		t.Error("a copy begins before its time")
	}
	if r.begin(&kgo.Record{Topic: "orders", Headers: []kgo.RecordHeader{header}}) == nil {
		t.Error("a message that is not a copy waits")
	}
}

func TestKeptMessageHasItsPlace(t *testing.T) {
	record := &kgo.Record{Topic: "orders", Partition: 2, Offset: 9, Key: []byte("k"), Value: []byte("body"), Headers: []kgo.RecordHeader{{Key: "id", Value: []byte("1")}}}
	message := inboxMessage(record)
	if message.Topic != "orders" || *message.Partition != 2 || *message.Offset != 9 || string(message.MessageKey) != "k" ||
		string(message.Payload) != "body" || len(message.Headers) != 1 || message.Headers[0].Name != "id" {
		t.Errorf("it is %+v", message)
	}
}

func TestNames(t *testing.T) {
	for what, test := range map[string]struct {
		headers []kgo.RecordHeader
		want    ledger.Key
	}{
		"a header":           {[]kgo.RecordHeader{{Key: "id", Value: []byte("1")}}, ledger.Key{Source: "orders", ID: "1"}},
		"a CloudEvent":       {[]kgo.RecordHeader{{Key: "ce_id", Value: []byte("1")}, {Key: "ce_source", Value: []byte("shop")}}, ledger.Key{Source: "shop", ID: "1"}},
		"no header":          {nil, ledger.Key{}},
		"not UTF-8":          {[]kgo.RecordHeader{{Key: "id", Value: []byte("\xff")}}, ledger.Key{}},
		"the last one wrong": {[]kgo.RecordHeader{{Key: "id", Value: []byte("1")}, {Key: "id", Value: []byte("\xff")}}, ledger.Key{}},
	} {
		found, err := Name("orders", &kgo.Record{Key: []byte("key"), Headers: test.headers})
		if found.Key != test.want || errors.Is(err, brokers.ErrNoID) != (test.want.ID == "") {
			t.Errorf("%s: %v, %v", what, found, err)
		}
	}
}
