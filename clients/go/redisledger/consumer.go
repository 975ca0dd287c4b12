// Package redisledger processes the entries of a stream of Redis, each once.
//
//	consumer := redisledger.Consumer{Ledger: client, Redis: connection, Stream: "orders", Handler: pay, Concurrency: 8}
//	err := consumer.Run(ledger.ShutdownContext(20 * time.Second))
package redisledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"idempotency-ledger.internal/ledger"
	"idempotency-ledger.internal/ledger/brokers"
	"idempotency-ledger.internal/ledger/internal/adapter"
)

const (
	block             = time.Second // how long a read waits for entries: the end of the context is noticed after it
	retryRead         = time.Second
	callWait          = 10 * time.Second
	defaultVisibility = time.Minute
	visibilityMin     = time.Second
	visibilityMax     = 12 * time.Hour
)

// ReasonField is the field of a dead letter that says why it is one.
const ReasonField = "dead-letter-reason"

// Consumer processes the entries of a stream, as one of a consumer group. Ledger, Redis and Stream must be set, and Handler or Store. Run
// may be called several times, and by several goroutines. It needs Redis 7, or what speaks its protocol.
//
// What each outcome becomes: Ack is XACK; RetryLater leaves the entry pending, with an idle time that lets any consumer of
// the group take it after the outcome's delay; DeadLetter is a copy (XADD), then XACK. While an entry is processed its idle
// time is set back at a third of Visibility, and while it waits for a delay that is longer than Visibility.
type Consumer struct {
	// Ledger is the client; it must stay open until Run has returned.
	Ledger *ledger.Ledger
	// Redis is a client, also of a cluster: Stream and DeadLetters may be in different slots.
	Redis redis.UniversalClient
	// Stream is the key of the stream.
	Stream string
	// Group is the consumer group; it is made where it is missing, and begins with the stream's first entry. Empty: the
	// consumer of Ledger.
	Group string
	// Handler has the effect: see ledger.Process for its context, its result and its errors. A panic ends the program,
	// after it is settled.
	Handler func(ctx context.Context, claim *ledger.Claim, entry redis.XMessage) (result []byte, err error)
	// Store keeps the entries in the ledger's inbox, for ledger.Work, in place of a Handler: one of the two is set.
	Store bool
	// Body is the field of which the fingerprint is made, and that may have an event as JSON. Empty: data.
	Body string
	// Name is the name of an entry of the stream. An error that is brokers.ErrNoID makes it a dead letter, any other one
	// ends Run. nil: [Name].
	Name func(stream string, entry redis.XMessage, body []byte) (brokers.Name, error)
	// Visibility is how long an entry is idle before another consumer takes it, whose consumer is gone: 1 s to 12 h; best
	// longer than the lease and the grace, and the same for all consumers of the group. 0: 1 minute.
	Visibility time.Duration
	// DeadLetters is the key of the stream of the dead letters. Empty: STREAM:dead.
	DeadLetters string
	// Concurrency is how many entries are processed at the same time, 1 to 1000. 0: 1.
	Concurrency int
	// Grace is how long Run waits for running handlers after its context has ended. 0: 20 s.
	Grace time.Duration
	// Logger gets what went wrong, at most a line a second of each kind; never a payload or an id. nil: slog.Default().
	Logger *slog.Logger
	// Observe is called with the outcome of each delivery before it is acknowledged, by several goroutines: for metrics. It
	// is not called for a delivery that is given back since the context has ended. nil: nothing.
	Observe func(outcome ledger.Outcome[[]byte])
}

// Name is the name of an entry: that of its CloudEvent (fields ce-id and ce-source, or content-type and the body), else the
// stream and its field id. The id that Redis gives to an entry names nothing: a producer that repeats itself gets another.
func Name(stream string, entry redis.XMessage, body []byte) (brokers.Name, error) {
	fields := map[string]string{}
	for name, value := range entry.Values {
		if text, ok := value.(string); ok {
			fields[name] = text
		}
	}
	if name, isEvent, err := brokers.FromCloudEvent(fields, body); isEvent {
		return name, err
	}
	if fields["id"] == "" {
		return brokers.Name{}, fmt.Errorf("%w: the entry has neither the attributes of a CloudEvent nor a field id", brokers.ErrNoID)
	}
	return brokers.Name{Key: ledger.Key{Source: stream, ID: fields["id"]}}, nil
}

// inboxMessage is the message for the inbox: the body, and the other fields as headers.
func inboxMessage(c Consumer, entry redis.XMessage, body []byte) ledger.Message {
	found := ledger.Message{Payload: body, Topic: c.Stream}
	for _, name := range slices.Sorted(maps.Keys(entry.Values)) {
		if text, ok := entry.Values[name].(string); ok && name != c.Body {
			found.Headers = append(found.Headers, ledger.Header{Name: name, Value: []byte(text)})
		}
	}
	return found
}

// Run takes entries until the context ends, and returns nil when those that it has begun are settled. What it has read and
// not begun is given back.
//
// It returns an error where the settings are at fault, where Redis refuses to read (the group was deleted, or a permission is
// missing), where the Ledger is closed, and where handlers still run after the grace. While Redis does not answer Run waits
// for it, once it was reached.
func (c Consumer) Run(ctx context.Context) error {
	if c.Redis == nil || c.Stream == "" || (c.Handler == nil) != c.Store {
		return errors.New("redisledger: Redis and Stream must be set, and Handler or Store")
	}
	if c.Visibility == 0 {
		c.Visibility = defaultVisibility
	}
	if c.Visibility < visibilityMin || c.Visibility > visibilityMax {
		return fmt.Errorf("redisledger: Visibility is %v; %v to %v are allowed", c.Visibility, visibilityMin, visibilityMax)
	}
	if c.Name == nil {
		c.Name = Name
	}
	if c.Body == "" {
		c.Body = "data"
	}
	if c.DeadLetters == "" {
		c.DeadLetters = c.Stream + ":dead"
	}
	pool, err := adapter.New(ctx, adapter.Settings{
		Ledger: c.Ledger, Concurrency: c.Concurrency, Grace: c.Grace, Logger: c.Logger, Observe: c.Observe, Place: "stream " + c.Stream,
	})
	if err != nil {
		return fmt.Errorf("redisledger: %w", err)
	}
	defer pool.Close()
	if c.Group == "" {
		c.Group = c.Ledger.Consumer()
	}
	host, _ := os.Hostname()
	r := run{Consumer: c, pool: pool, cursor: "0-0"}
	r.idle = idle{
		redis: c.Redis, stream: c.Stream, group: c.Group, name: fmt.Sprintf("%.100s/%d", host, os.Getpid()),
		visibility: c.Visibility, running: map[string]bool{}, postponed: map[string]time.Time{},
	}
	if err := r.consume(); err != nil {
		return fmt.Errorf("redisledger: %w", err)
	}
	return nil
}

// run is one Run.
type run struct {
	Consumer
	pool   *adapter.Pool
	idle   idle
	cursor string
}

func (r *run) consume() error {
	ctx, cancel := r.pool.Bounded(callWait)
	defer cancel()
	err := r.Redis.XGroupCreateMkStream(ctx, r.Stream, r.Group, "0").Err()
	if err != nil && !redis.HasErrorPrefix(err, "BUSYGROUP") {
		return err
	}
	kept := adapter.Every(r.Visibility/3, r.keep)
	defer kept.Stop()
	return r.pool.Run(r.take)
}

// take reads entries for the slots, and begins each. It returns how many slots are used.
func (r *run) take(slots int) (used int) {
	entries, err := r.read(slots)
	if err != nil {
		r.failed(err)
	}
	r.begin(entries)
	return len(entries)
}

// read returns entries whose consumer is gone or that are due again, else new ones: at most one for each slot.
func (r *run) read(slots int) ([]redis.XMessage, error) {
	ctx, cancel := r.pool.Bounded(callWait)
	defer cancel()
	again, next, deleted, err := r.Redis.XAutoClaimWithDeleted(ctx, &redis.XAutoClaimArgs{
		Stream: r.Stream, Group: r.Group, Consumer: r.idle.name, MinIdle: r.Visibility, Start: r.cursor, Count: int64(slots),
	}).Result()
	if err != nil {
		return nil, err
	}
	r.cursor = next
	if len(deleted) > 0 {
		r.pool.Error("entries are lost: they were pending, and were trimmed or deleted", fmt.Sprintf("%d entries", len(deleted)))
	}
	if len(again) > 0 {
		return r.idle.begin(again), nil
	}
	streams, err := r.Redis.XReadGroup(ctx, &redis.XReadGroupArgs{
		Group: r.Group, Consumer: r.idle.name, Streams: []string{r.Stream, ">"}, Count: int64(slots), Block: block,
	}).Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var found []redis.XMessage
	for _, stream := range streams {
		found = append(found, stream.Messages...)
	}
	return r.idle.begin(found), nil
}

// begin processes each entry in a slot.
func (r *run) begin(entries []redis.XMessage) {
	for _, entry := range entries {
		r.pool.Go(func() {
			defer r.idle.end(entry.ID)
			if err := r.settle(entry); err != nil {
				// The entry stays pending, and the ledger knows what became of it.
				r.pool.Warn("an entry was not acknowledged", kind(err))
			}
		})
	}
}

// failed waits where Redis may answer again, and ends the run where it will not.
func (r *run) failed(err error) {
	if r.pool.Ended() {
		return
	}
	if lasting(err) {
		r.pool.Fail(fmt.Errorf("no entry can be read: %w", err))
		return
	}
	r.pool.Warn("no entry can be read", kind(err))
	r.pool.Sleep(retryRead)
}

// lasting reports whether Redis will refuse the same command again.
func lasting(err error) bool {
	if errors.Is(err, redis.ErrClosed) {
		return true
	}
	var answered redis.Error
	if !errors.As(err, &answered) {
		return false // A connection that ended, or an answer that did not come.
	}
	for _, passing := range []string{"LOADING", "READONLY", "CLUSTERDOWN", "TRYAGAIN", "MASTERDOWN", "MOVED", "ASK", "BUSY", "UNBLOCKED", "OOM", "MISCONF"} {
		if redis.HasErrorPrefix(err, passing) {
			return false
		}
	}
	return true
}

// kind is the beginning of Redis' answer, such as WRONGTYPE, or the type of another error: an answer may quote an entry.
func kind(err error) string {
	var answered redis.Error
	if errors.As(err, &answered) {
		word, _, _ := strings.Cut(answered.Error(), " ")
		return word
	}
	return fmt.Sprintf("%T", err)
}

// keep sets the idle times of what is processed, or waits, here.
func (r *run) keep() {
	ctx, cancel := r.pool.Bounded(r.Visibility / 3)
	defer cancel()
	if err := r.idle.keep(ctx); err != nil {
		r.pool.Warn("entries were not kept; another consumer may take them", kind(err))
	}
}

// settle processes an entry, and acknowledges it or sets when it may be taken again.
func (r *run) settle(entry redis.XMessage) error {
	text, _ := entry.Values[r.Body].(string)
	body := []byte(text)
	name := func() (brokers.Name, error) { return r.Name(r.Stream, entry, body) }
	var verdict adapter.Verdict
	if r.Store {
		verdict = r.pool.Store(r.pool.Context(), name, inboxMessage(r.Consumer, entry, body))
	} else {
		verdict = r.pool.Process(r.pool.Context(), name, body,
			func(ctx context.Context, claim *ledger.Claim) ([]byte, error) { return r.Handler(ctx, claim, entry) })
	}
	ctx, cancel := r.pool.Bounded(callWait)
	defer cancel()
	switch {
	case verdict.NotBegun:
		return r.idle.postpone(ctx, entry.ID, 0)
	case verdict.Advice == ledger.RetryLater:
		return r.idle.postpone(ctx, entry.ID, verdict.Delay)
	case verdict.Advice == ledger.DeadLetter:
		letter := make(map[string]any, len(entry.Values)+1)
		for name, value := range entry.Values {
			letter[name] = value
		}
		letter[ReasonField] = verdict.Reason
		// Not one transaction: Redis would acknowledge the entry also where the copy is refused.
		if err := r.Redis.XAdd(ctx, &redis.XAddArgs{Stream: r.DeadLetters, Values: letter}).Err(); err != nil {
			r.pool.Error("a dead letter is not stored; it is delivered again", kind(err))
			return err
		}
	}
	return r.Redis.XAck(ctx, r.Stream, r.Group, entry.ID).Err()
}
