package kafkaledger

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"idempotency-ledger.internal/ledger"
	"idempotency-ledger.internal/ledger/internal/adapter"
)

// ahead is how many messages of a partition are taken beyond its oldest one that is not done: a crash repeats them.
const ahead = 10_000

// place names a partition.
type place struct {
	topic  string
	number int32
}

// partition is what one assignment of a partition has taken and not committed. The lock of its run guards it.
type partition struct {
	place
	// ctx ends when the partition is revoked, and with the pool.
	ctx  context.Context
	end  context.CancelFunc
	gone bool // it is revoked
	// taken are the messages from the oldest one on that is not done, by their offsets.
	taken  []*message
	held   int // how many of them wait for their time, or were held and are not done
	paused bool
}

// message is a record that was taken.
type message struct {
	record    *kgo.Record
	partition *partition
	done      bool
	held      bool
}

// offsets is what the client does for partitions.
type offsets interface {
	MarkCommitOffsets(map[string]map[int32]kgo.EpochOffset)
	PauseFetchPartitions(map[string][]int32) map[string][]int32
	ResumeFetchPartitions(map[string][]int32)
}

// run is one Run.
type run struct {
	Consumer
	pool    *adapter.Pool
	client  *kgo.Client
	offsets offsets // the client

	mu         sync.Mutex
	partitions map[place]*partition
	due        []*message // messages that were held, and may begin again
	wake       context.CancelFunc
}

// begin enters a record. It returns nil where the record is not to begin yet.
func (r *run) begin(record *kgo.Record) *message {
	r.mu.Lock()
	name := place{record.Topic, record.Partition}
	p := r.partitions[name]
	if p == nil {
		p = &partition{place: name}
		p.ctx, p.end = context.WithCancel(r.pool.Context())
		r.partitions[name] = p
	}
	m := &message{record: record, partition: p}
	p.taken = append(p.taken, m)
	r.steer(p)
	r.mu.Unlock()
	if wait := notDue(record); record.Topic == r.Retry && wait > 0 {
		r.hold(m, wait)
		return nil
	}
	return m
}

// hold lets a message begin again after the delay. Nothing more is taken of its partition until it is done.
func (r *run) hold(m *message, delay time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m.partition.gone {
		return
	}
	if !m.held {
		m.held = true
		m.partition.held++
		r.steer(m.partition)
	}
	time.AfterFunc(delay, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !m.partition.gone {
			r.due = append(r.due, m)
			if r.wake != nil {
				r.wake()
			}
		}
	})
}

// heldFor returns how long a message is held in memory that must come later; false if it need not, or is copied to the retry topic.
func (r *run) heldFor(m *message, verdict adapter.Verdict) (time.Duration, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case verdict.Advice != ledger.RetryLater:
		return 0, false
	// With a retry topic it is asked for once: the member may be gone, and its lease may be long.
	case verdict.Reason == inProgress && (r.Retry == "" || !m.held):
		return min(verdict.Delay, askEvery), true
	}
	return verdict.Delay, r.Retry == ""
}

// dueAgain returns messages that were held and may begin, at most one for each slot.
func (r *run) dueAgain(slots int) []*message {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.due = slices.DeleteFunc(r.due, func(m *message) bool { return m.partition.gone })
	found := slices.Clone(r.due[:min(slots, len(r.due))])
	r.due = slices.Delete(r.due, 0, len(found))
	return found
}

// wakeBy says how to end the poll that follows when a message is due again.
func (r *run) wakeBy(cancel context.CancelFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wake = cancel
	if len(r.due) > 0 {
		cancel()
	}
}

// done enters that a message is done: the offset is committed to which all messages are.
func (r *run) done(m *message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := m.partition
	if p.gone {
		return
	}
	m.done = true
	if m.held {
		p.held--
	}
	finished := 0
	for finished < len(p.taken) && p.taken[finished].done {
		finished++
	}
	if finished > 0 {
		last := p.taken[finished-1].record
		p.taken = slices.Delete(p.taken, 0, finished)
		offset := kgo.EpochOffset{Epoch: last.LeaderEpoch, Offset: last.Offset + 1}
		r.offsets.MarkCommitOffsets(map[string]map[int32]kgo.EpochOffset{p.topic: {p.number: offset}})
	}
	r.steer(p)
}

// steer pauses a partition of which nothing more may be taken, or resumes it. r.mu is held.
func (r *run) steer(p *partition) {
	paused := p.held > 0 || len(p.taken) >= ahead
	if paused == p.paused {
		return
	}
	p.paused = paused
	names := map[string][]int32{p.topic: {p.number}}
	if paused {
		r.offsets.PauseFetchPartitions(names)
	} else {
		r.offsets.ResumeFetchPartitions(names)
	}
}

func (r *run) isRevoked(m *message) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return m.partition.gone
}

// revoked gives up partitions while they still belong to this member: what is done is committed, for the next one to begin
// there.
func (r *run) revoked(ctx context.Context, _ *kgo.Client, names map[string][]int32) {
	r.lost(ctx, nil, names)
	bounded, cancel := context.WithTimeout(ctx, revokeWait)
	defer cancel()
	if err := r.client.CommitMarkedOffsets(bounded); err != nil {
		r.pool.Warn("offsets are not committed; their messages are delivered again", err.Error())
	}
}

// lost gives up partitions that belong to another member by now, or soon will.
func (r *run) lost(_ context.Context, _ *kgo.Client, names map[string][]int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for topic, numbers := range names {
		for _, number := range numbers {
			p := r.partitions[place{topic, number}]
			if p == nil {
				continue
			}
			delete(r.partitions, p.place)
			p.gone = true
			p.end()
			if p.paused { // Else it would stay so when it is assigned again.
				r.offsets.ResumeFetchPartitions(map[string][]int32{topic: {number}})
			}
		}
	}
}

// notDue is how long a copy in the retry topic must still wait.
func notDue(record *kgo.Record) time.Duration {
	var due time.Duration
	for _, header := range record.Headers {
		if header.Key != DueHeader {
			continue
		}
		if at, err := strconv.ParseInt(string(header.Value), 10, 64); err == nil {
			due = time.Until(time.UnixMilli(at))
		}
	}
	return due
}

func milliseconds(instant time.Time) []byte {
	return strconv.AppendInt(nil, instant.UnixMilli(), 10)
}
