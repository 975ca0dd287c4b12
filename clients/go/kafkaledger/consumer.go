// Package kafkaledger processes the messages of a topic of Kafka, each once.
//
//	consumer := kafkaledger.Consumer{
//		Ledger: client, Options: []kgo.Opt{kgo.SeedBrokers("127.0.0.1:9092")}, Topic: "orders", Handler: pay, Concurrency: 8,
//	}
//	err := consumer.Run(ledger.ShutdownContext(20 * time.Second))
package kafkaledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
	"idempotency-ledger.internal/ledger"
	"idempotency-ledger.internal/ledger/brokers"
	"idempotency-ledger.internal/ledger/internal/adapter"
)

const (
	commitEvery = time.Second
	callWait    = 10 * time.Second // how long a copy may take
	leaveWait   = 3 * time.Second  // how long the last commit and the leave may take together
	closeWait   = time.Second      // until a client is left that does not close
	revokeWait  = 5 * time.Second  // how long a commit may take while the group waits for it
	// askEvery is how long a message waits at most whose attempt runs at another member. The ledger names the end of the lease, but
	// after a rebalance the former owner of the partition mostly ends or releases the attempt within a second.
	askEvery   = time.Second
	inProgress = "in_progress" // the ledger's verdict
)

// Consumer processes the messages of a topic, as a member of a classic consumer group. Ledger, Options and Topic must
// be set, and Handler or Store. Run may be called several times, and by several goroutines: each is a member.
//
// What each outcome becomes: Ack is an offset that is committed once all offsets before it are done. RetryLater pauses the
// partition until the message is done: it is processed again, from memory, after the outcome's delay; or, with Retry, it is
// a copy in that topic, with the header [DueHeader]. DeadLetter is a copy. Copies are confirmed by all in-sync replicas
// before the original counts as done: after a crash in between there are two.
//
// Messages of a partition are processed at the same time; with a Concurrency of 1 in their order. Handlers may take as long
// as they need: the client sends heartbeats meanwhile. Of a partition that is revoked, what has not begun is given back, and
// what runs ends without a commit: the next owner has it again.
type Consumer struct {
	// Ledger is the client; it must stay open until Run has returned.
	Ledger *ledger.Ledger
	// Options are those of the client of Kafka: seed brokers, TLS, SASL, timeouts. The adapter sets the group, the topics,
	// and how offsets are committed. By default it reads committed messages alone, begins with the first messages where
	// offsets are lost, and offers the balancers range and round robin, as clients in other languages do.
	Options []kgo.Opt
	// Topic is the topic.
	Topic string
	// Group is the consumer group; one without offsets begins with the first messages. Empty: the consumer of Ledger.
	Group string
	// Handler has the effect: see ledger.Process for its context, its result and its errors. A panic ends the program,
	// after it is settled.
	Handler func(ctx context.Context, claim *ledger.Claim, message *kgo.Record) (result []byte, err error)
	// Store keeps the messages in the ledger's inbox, for ledger.Work, in place of a Handler: one of the two is set.
	Store bool
	// Name is the name of a message, by Topic, also where the message is in Retry. An error that is brokers.ErrNoID makes
	// it a dead letter, any other one ends Run. nil: [Name].
	Name func(topic string, message *kgo.Record) (brokers.Name, error)
	// Retry is the topic of messages that come later; it must exist. Empty: their partitions wait.
	Retry string
	// DeadLetters is the topic of the dead letters; it must exist. Empty: TOPIC.dead.
	DeadLetters string
	// Concurrency is how many messages are processed at the same time, 1 to 1000. 0: 1.
	Concurrency int
	// Grace is how long Run waits for running handlers after its context has ended. 0: 20 s.
	Grace time.Duration
	// Logger gets what went wrong, at most a line a second of each kind; never a payload or an id. nil: slog.Default().
	Logger *slog.Logger
	// Observe is called with the outcome of each delivery before it is acknowledged, by several goroutines: for metrics. It
	// is not called for a delivery that is given back since the context has ended. nil: nothing.
	Observe func(outcome ledger.Outcome[[]byte])
}

// Name is the name of a message: that of its CloudEvent, else the topic and its header id.
//
// Neither its key nor its offset names it: a key chooses a partition, and a producer that repeats itself gets another
// offset. A header that is not UTF-8 is not read: two ids must not become one.
func Name(topic string, message *kgo.Record) (brokers.Name, error) {
	headers := map[string]string{}
	for _, header := range message.Headers {
		if utf8.Valid(header.Value) {
			headers[header.Key] = string(header.Value)
		} else {
			delete(headers, header.Key)
		}
	}
	if name, isEvent, err := brokers.FromCloudEvent(headers, message.Value); isEvent {
		return name, err
	}
	if headers["id"] == "" {
		return brokers.Name{}, fmt.Errorf("%w: the message has neither the attributes of a CloudEvent nor a header id", brokers.ErrNoID)
	}
	return brokers.Name{Key: ledger.Key{Source: topic, ID: headers["id"]}}, nil
}

// inboxMessage is the message for the inbox, with its place in the topic.
func inboxMessage(record *kgo.Record) ledger.Message {
	message := ledger.Message{
		Payload: record.Value, Topic: record.Topic, Partition: &record.Partition, Offset: &record.Offset, MessageKey: record.Key,
	}
	for _, header := range record.Headers {
		message.Headers = append(message.Headers, ledger.Header{Name: header.Key, Value: header.Value})
	}
	return message
}

// Run takes messages until the context ends, and returns nil when those that it has begun are settled, and what is done is
// committed.
//
// It returns an error where the settings are at fault, where Kafka refuses this member or its topics (authorization, another
// protocol), where the Ledger is closed, and where handlers still run after the grace. While no broker answers Run waits
// for one.
func (c Consumer) Run(ctx context.Context) error {
	if c.Topic == "" || (c.Handler == nil) != c.Store {
		return errors.New("kafkaledger: Topic must be set, and Handler or Store")
	}
	if c.Name == nil {
		c.Name = Name
	}
	if c.DeadLetters == "" {
		c.DeadLetters = c.Topic + ".dead"
	}
	pool, err := adapter.New(ctx, adapter.Settings{
		Ledger: c.Ledger, Concurrency: c.Concurrency, Grace: c.Grace, Logger: c.Logger, Observe: c.Observe, Place: "topic " + c.Topic,
	})
	if err != nil {
		return fmt.Errorf("kafkaledger: %w", err)
	}
	defer pool.Close()
	if c.Group == "" {
		c.Group = c.Ledger.Consumer()
	}
	r := &run{Consumer: c, pool: pool, partitions: map[place]*partition{}}
	if r.client, err = kgo.NewClient(r.options()...); err != nil {
		return fmt.Errorf("kafkaledger: %w", err)
	}
	r.offsets = r.client
	defer r.close()
	err = pool.Run(r.take)
	r.leave()
	if err != nil {
		return fmt.Errorf("kafkaledger: %w", err)
	}
	return nil
}

// options are those of the client: the user's may change the first ones, and not the last ones.
func (r *run) options() []kgo.Opt {
	topics := []string{r.Topic}
	if r.Retry != "" {
		topics = append(topics, r.Retry)
	}
	options := []kgo.Opt{
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.Balancers(kgo.RangeBalancer(), kgo.RoundRobinBalancer()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.RecordDeliveryTimeout(callWait),
	}
	options = append(options, r.Options...)
	return append(options,
		kgo.ConsumerGroup(r.Group), kgo.ConsumeTopics(topics...), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.AutoCommitMarks(), kgo.AutoCommitInterval(commitEvery), kgo.AutoCommitCallback(r.committed),
		// A partition is not revoked between a poll and its entry in the list of partitions.
		kgo.BlockRebalanceOnPoll(), kgo.OnPartitionsRevoked(r.revoked), kgo.OnPartitionsLost(r.lost))
}

// take begins messages that are due again, and new ones. It returns how many slots are used.
func (r *run) take(slots int) (used int) {
	again := r.dueAgain(slots)
	for _, each := range again {
		r.pool.Go(func() { r.settle(each) })
	}
	if used = len(again); used == slots {
		return used
	}
	ctx, cancel := context.WithCancel(r.pool.Context())
	defer cancel()
	r.wakeBy(cancel)
	fetches := r.client.PollRecords(ctx, slots-used)
	defer r.client.AllowRebalance()
	fetches.EachError(r.failed)
	fetches.EachRecord(func(record *kgo.Record) {
		if begun := r.begin(record); begun != nil {
			used++
			r.pool.Go(func() { r.settle(begun) })
		}
	})
	return used
}

// settle processes a message. What is not done stays uncommitted, and is held unless its partition is revoked.
func (r *run) settle(m *message) {
	name := func() (brokers.Name, error) { return r.Name(r.Topic, m.record) }
	var verdict adapter.Verdict
	if r.Store {
		verdict = r.pool.Store(m.partition.ctx, name, inboxMessage(m.record))
	} else {
		verdict = r.pool.Process(m.partition.ctx, name, m.record.Value,
			func(ctx context.Context, claim *ledger.Claim) ([]byte, error) { return r.Handler(ctx, claim, m.record) })
	}
	if verdict.NotBegun || r.isRevoked(m) { // Another consumer has it again, and the ledger knows what became of it.
		return
	}
	if delay, isHeld := r.heldFor(m, verdict); isHeld {
		r.hold(m, delay)
		return
	}
	var err error
	switch {
	case verdict.Advice == ledger.RetryLater:
		err = r.copy(m.record, r.Retry, kgo.RecordHeader{Key: DueHeader, Value: milliseconds(time.Now().Add(verdict.Delay))})
	case verdict.Advice == ledger.DeadLetter:
		err = r.copy(m.record, r.DeadLetters, kgo.RecordHeader{Key: ReasonHeader, Value: []byte(verdict.Reason)})
	}
	if err != nil {
		r.pool.Error("a copy of a message is not stored; the message is kept", err.Error())
		r.hold(m, time.Second)
		return
	}
	r.done(m)
}
