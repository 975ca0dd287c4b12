// Package rabbitmqledger processes the messages of a queue of RabbitMQ, each once.
//
//	consumer := rabbitmqledger.Consumer{Ledger: client, Connection: connection, Queue: "orders", Handler: pay, Concurrency: 8}
//	err := consumer.Run(ledger.ShutdownContext(20 * time.Second))
package rabbitmqledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"idempotency-ledger.internal/ledger"
	"idempotency-ledger.internal/ledger/brokers"
	"idempotency-ledger.internal/ledger/internal/adapter"
)

const retryCopy = time.Second

// Consumer processes the messages of a quorum queue. Ledger, Connection and Queue must be set, and Handler or Store. Run may be called
// several times, and by several goroutines.
//
// What each outcome becomes: Ack is an ack; RetryLater is a copy in a delay queue (QUEUE.later.5s and so on), whose time to
// live brings it back, then an ack; DeadLetter is a copy in DeadLetters, then an ack. The server confirms a copy, and that
// a queue has it, before the original is acknowledged: after a crash in between there are two, and the ledger lets one have
// the effect. A longer delay is spent in several turns: the header [DueHeader] of a copy says when it is due, and a consumer
// postpones a copy that is not due yet, without asking the ledger.
//
// A message is never given back by nack: RabbitMQ counts those, and drops or dead-letters a message of a quorum queue that
// was given back more often than its delivery limit.
type Consumer struct {
	// Ledger is the client; it must stay open until Run has returned.
	Ledger *ledger.Ledger
	// Connection is one without automatic recovery: after it, acknowledgements could be those of other messages.
	Connection *amqp.Connection
	// Queue is the name of the queue. One that does not exist is declared as a quorum queue without a delivery limit; one
	// that exists is taken as it is. Set x-delivery-limit to -1 where the server is RabbitMQ 4 or later, whose default of 20
	// drops messages.
	Queue string
	// Handler has the effect: see ledger.Process for its context, its result and its errors. It must end within the
	// server's consumer_timeout, by default 30 minutes. A panic ends the program, after it is settled.
	Handler func(ctx context.Context, claim *ledger.Claim, message amqp.Delivery) (result []byte, err error)
	// Store keeps the messages in the ledger's inbox, for ledger.Work, in place of a Handler: one of the two is set.
	Store bool
	// Name is the name of a message of the queue. An error that is brokers.ErrNoID makes it a dead letter, any other one
	// ends Run. nil: [Name].
	Name func(queue string, message amqp.Delivery) (brokers.Name, error)
	// DeadLetters is the queue of the dead letters, which is declared as Queue is. Empty: QUEUE.dead.
	DeadLetters string
	// Concurrency is how many messages are processed at the same time, 1 to 1000; also the prefetch. 0: 1.
	Concurrency int
	// Grace is how long Run waits for running handlers after its context has ended. 0: 20 s.
	Grace time.Duration
	// Logger gets what went wrong, at most a line a second of each kind; never a payload or an id. nil: slog.Default().
	Logger *slog.Logger
	// Observe is called with the outcome of each delivery before it is acknowledged, by several goroutines: for metrics. It
	// is not called for a delivery that is given back since the context has ended. nil: nothing.
	Observe func(outcome ledger.Outcome[[]byte])
}

// withoutID marks the copy of a message without an id by the package for Python, whose client gives each message one.
const withoutID = "without-message-id"

// Name is the name of a message: that of its CloudEvent, else the queue and the property message_id. The id of a copy that has
// the header without-message-id is not read: its producer did not send it.
func Name(queue string, message amqp.Delivery) (brokers.Name, error) {
	headers := map[string]string{}
	for name, value := range message.Headers {
		if text, ok := attribute(value); ok {
			headers[name] = text
		}
	}
	if message.ContentType != "" {
		headers["content-type"] = message.ContentType
	}
	if name, isEvent, err := brokers.FromCloudEvent(headers, message.Body); isEvent {
		return name, err
	}
	if _, marked := message.Headers[withoutID]; message.MessageId == "" || marked {
		return brokers.Name{}, fmt.Errorf("%w: the message has neither the attributes of a CloudEvent nor the property message_id",
			brokers.ErrNoID)
	}
	return brokers.Name{Key: ledger.Key{Source: queue, ID: message.MessageId}}, nil
}

// attribute is a header's value as text, where it has one text in every language.
func attribute(value any) (string, bool) {
	switch known := value.(type) {
	case string:
		return known, true
	case time.Time:
		return known.UTC().Format(time.RFC3339), true
	case int16, int32, int64, int, int8, uint8, uint16, uint32:
		return fmt.Sprint(known), true
	}
	return "", false
}

// inboxMessage is the message for the inbox: of its headers those that are text in every language.
func inboxMessage(queue string, message amqp.Delivery) ledger.Message {
	found := ledger.Message{Payload: message.Body, Topic: queue, EventType: message.Type, ContentType: message.ContentType}
	for _, name := range slices.Sorted(maps.Keys(message.Headers)) {
		if text, ok := attribute(message.Headers[name]); ok {
			found.Headers = append(found.Headers, ledger.Header{Name: name, Value: []byte(text)})
		}
	}
	return found
}

// Run takes messages until the context ends, and returns nil when those that it has begun are settled. What it has fetched
// and not begun returns to the queue when Run ends.
//
// It returns an error where the settings are at fault, where the connection is lost or the queue deleted, where the Ledger
// is closed, and where handlers still run after the grace. After a loss connect again, and call Run again.
func (c Consumer) Run(ctx context.Context) error {
	if c.Connection == nil || c.Queue == "" || (c.Handler == nil) != c.Store {
		return errors.New("rabbitmqledger: Connection and Queue must be set, and Handler or Store")
	}
	if c.Connection.IsRecoveryEnabled() {
		return errors.New("rabbitmqledger: Connection recovers by itself: an acknowledgement after that could be that of another message; connect without amqp.Config.Recovery")
	}
	if c.Name == nil {
		c.Name = Name
	}
	if c.DeadLetters == "" {
		c.DeadLetters = c.Queue + ".dead"
	}
	pool, err := adapter.New(ctx, adapter.Settings{
		Ledger: c.Ledger, Concurrency: c.Concurrency, Grace: c.Grace, Logger: c.Logger, Observe: c.Observe, Place: "queue " + c.Queue,
	})
	if err != nil {
		return fmt.Errorf("rabbitmqledger: %w", err)
	}
	defer pool.Close()
	r := run{Consumer: c, pool: pool}
	if err := r.consume(); err != nil {
		return fmt.Errorf("rabbitmqledger: %w", err)
	}
	return nil
}

// run is one Run.
type run struct {
	Consumer
	pool   *adapter.Pool
	copies *copies
}

func (r *run) consume() error {
	for _, queue := range []string{r.Queue, r.DeadLetters} {
		if err := declare(r.Connection, queue, unlimited(r.Connection)); err != nil {
			return err
		}
	}
	copies, err := newCopies(r.Connection)
	if err != nil {
		return err
	}
	defer copies.channel.Close()
	r.copies = copies
	channel, err := r.Connection.Channel()
	if err != nil {
		return err
	}
	// What was fetched and not acknowledged returns to the queue.
	defer channel.Close()
	if err := channel.Qos(r.pool.Concurrency(), 0, false); err != nil {
		return err
	}
	tag := "ledger-" + strconv.Itoa(os.Getpid())
	messages, err := channel.Consume(r.Queue, tag, false, false, false, false, nil)
	if err != nil {
		return err
	}
	r.take(messages, channel.NotifyClose(make(chan *amqp.Error, 1)), copies.closed)
	if !channel.IsClosed() {
		_ = channel.Cancel(tag, false) // Else the channel is closed, which says the same.
	}
	return r.pool.Wait()
}

// take begins each message until the pool ends; it ends the pool where no message can come any more.
func (r *run) take(messages <-chan amqp.Delivery, closed, copiesClosed <-chan *amqp.Error) {
	for {
		select {
		case <-r.pool.Done():
			return
		case err := <-copiesClosed:
			r.pool.Fail(lost(err))
			return
		case message, ok := <-messages:
			if !ok {
				var err *amqp.Error
				select { // The server says why, unless the queue is deleted.
				case err = <-closed:
				default:
				}
				r.pool.Fail(lost(err))
				return
			}
			if !r.pool.AcquireOne() {
				return
			}
			r.pool.Go(func() { r.settle(message) })
		}
	}
}

func lost(err *amqp.Error) error {
	if err == nil {
		return errors.New("the server has ended the consumption: the connection is closed, or the queue is deleted")
	}
	return fmt.Errorf("the channel is closed: %w", err)
}

// settle processes a message, and acknowledges it. One that is not acknowledged returns to the queue when Run ends.
func (r *run) settle(message amqp.Delivery) {
	if wait := notDue(message); wait > 0 {
		if r.copied(func(ctx context.Context) error { return r.copies.postpone(ctx, r.Queue, message, wait) }) {
			r.acknowledge(message)
		}
		return
	}
	name := func() (brokers.Name, error) { return r.Name(r.Queue, message) }
	var verdict adapter.Verdict
	if r.Store {
		verdict = r.pool.Store(r.pool.Context(), name, inboxMessage(r.Queue, message))
	} else {
		verdict = r.pool.Process(r.pool.Context(), name, message.Body,
			func(ctx context.Context, claim *ledger.Claim) ([]byte, error) { return r.Handler(ctx, claim, message) })
	}
	stored := true
	switch {
	case verdict.NotBegun:
		return
	case verdict.Advice == ledger.RetryLater:
		stored = r.copied(func(ctx context.Context) error { return r.copies.postpone(ctx, r.Queue, message, verdict.Delay) })
	case verdict.Advice == ledger.DeadLetter:
		stored = r.copied(func(ctx context.Context) error {
			return r.copies.store(ctx, message, r.DeadLetters, amqp.Table{ReasonHeader: verdict.Reason})
		})
	}
	if stored {
		r.acknowledge(message)
	}
}

// copied makes a copy, and tries again until it is stored: RabbitMQ does not deliver the message again before Run ends.
func (r *run) copied(store func(context.Context) error) bool {
	for {
		ctx, cancel := r.pool.Bounded(confirmWait)
		err := store(ctx)
		cancel()
		if err == nil {
			return true
		}
		r.pool.Error("a copy of a message is not stored", err.Error())
		if !r.pool.Sleep(retryCopy) {
			return false
		}
	}
}

func (r *run) acknowledge(message amqp.Delivery) {
	if err := message.Ack(false); err != nil {
		// RabbitMQ delivers it again, and the ledger knows what became of it.
		r.pool.Warn("a message was not acknowledged", err.Error())
	}
}
