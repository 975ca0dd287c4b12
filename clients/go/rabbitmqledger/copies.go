package rabbitmqledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	// ReasonHeader is the header of a dead letter that says why it is one.
	ReasonHeader = "dead-letter-reason"
	// DueHeader is the header of a postponed message that says when it is due, in milliseconds since 1970 UTC.
	DueHeader = "retry-at"
)

const confirmWait = 10 * time.Second

// delays are those of the delay queues. A queue has one, since RabbitMQ expires its head alone.
var delays = []time.Duration{
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute,
}

// Headers that a copy does not have: CC and BCC would send it to further queues, and the others are the server's account of
// the original.
var left = map[string]bool{
	"CC": true, "BCC": true, "x-death": true, "x-delivery-count": true, "x-acquired-count": true,
	"x-first-death-exchange": true, "x-first-death-queue": true, "x-first-death-reason": true,
	"x-last-death-exchange": true, "x-last-death-queue": true, "x-last-death-reason": true,
}

// copies publishes copies of messages, one at a time, over a channel that confirms them.
type copies struct {
	connection *amqp.Connection
	channel    *amqp.Channel
	closed     <-chan *amqp.Error

	mu       sync.Mutex
	returned chan amqp.Return
	declared map[string]bool
}

func newCopies(connection *amqp.Connection) (*copies, error) {
	channel, err := connection.Channel()
	if err != nil {
		return nil, err
	}
	if err := channel.Confirm(false); err != nil {
		return nil, errors.Join(err, channel.Close())
	}
	return &copies{
		connection: connection, channel: channel, closed: channel.NotifyClose(make(chan *amqp.Error, 1)),
		returned: channel.NotifyReturn(make(chan amqp.Return, 1)), declared: map[string]bool{},
	}, nil
}

// notDue is how long a postponed message must still wait.
func notDue(message amqp.Delivery) time.Duration {
	due, ok := message.Headers[DueHeader].(int64)
	if !ok {
		return 0
	}
	// A clock that is wrong delays no message for longer than the longest queue at a time.
	return min(time.Until(time.UnixMilli(due)), delays[len(delays)-1])
}

// postpone stores a copy in the longest delay queue that does not exceed the delay, or in the shortest one.
func (c *copies) postpone(ctx context.Context, queue string, message amqp.Delivery, delay time.Duration) error {
	due, ok := message.Headers[DueHeader].(int64)
	if now := time.Now(); !ok || due <= now.UnixMilli() {
		due = now.Add(delay).UnixMilli()
	}
	length := delays[0]
	for _, each := range delays {
		if each <= delay {
			length = each
		}
	}
	name := fmt.Sprintf("%s.later.%ds", queue, int(length.Seconds()))
	if err := c.declare(name, queue, length); err != nil {
		return err
	}
	return c.store(ctx, message, name, amqp.Table{DueHeader: due})
}

// declare declares a delay queue, once. Its messages go back to the queue, and leave it when that has confirmed them.
func (c *copies) declare(name, back string, length time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.declared[name] {
		return nil
	}
	err := declare(c.connection, name, amqp.Table{
		"x-queue-type": "quorum", "x-dead-letter-exchange": "", "x-dead-letter-routing-key": back,
		"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish", "x-message-ttl": length.Milliseconds(),
	})
	c.declared[name] = err == nil
	return err
}

// store publishes a copy to a queue, and returns nil when the server has confirmed that the queue has it.
func (c *copies) store(ctx context.Context, message amqp.Delivery, queue string, more amqp.Table) error {
	// Without an expiration, which would drop it, and without a user, who may be another one.
	letter := amqp.Publishing{
		Headers: amqp.Table{}, ContentType: message.ContentType, ContentEncoding: message.ContentEncoding,
		DeliveryMode: amqp.Persistent, Priority: message.Priority, CorrelationId: message.CorrelationId,
		ReplyTo: message.ReplyTo, MessageId: message.MessageId, Timestamp: message.Timestamp, Type: message.Type,
		AppId: message.AppId, Body: message.Body,
	}
	for name, value := range message.Headers {
		if !left[name] && name != DueHeader {
			letter.Headers[name] = value
		}
	}
	maps.Copy(letter.Headers, more)
	c.mu.Lock()
	defer c.mu.Unlock()
	select { // A return of a copy that was given up.
	case <-c.returned:
	default:
	}
	confirmed, err := c.channel.PublishWithDeferredConfirmWithContext(ctx, "", queue, true, false, letter)
	if err != nil {
		return err
	}
	stored, err := confirmed.WaitContext(ctx)
	if err != nil {
		return err
	}
	if !stored {
		return fmt.Errorf("the queue %s refuses the copy", queue)
	}
	select { // What no queue has is returned, and confirmed after that.
	case <-c.returned:
		c.declared[queue] = false
		return fmt.Errorf("the queue %s does not exist", queue)
	default:
		return nil
	}
}

// unlimited are the arguments of a quorum queue without a delivery limit.
func unlimited(connection *amqp.Connection) amqp.Table {
	arguments := amqp.Table{"x-queue-type": "quorum"}
	version, _ := connection.Properties["version"].(string)
	major, _, _ := strings.Cut(version, ".")
	if number, err := strconv.Atoi(major); err == nil && number >= 4 { // Before, a queue without the argument has no limit.
		arguments["x-delivery-limit"] = int64(-1)
	}
	return arguments
}

// declare declares a durable queue unless there is one of that name. The server closes the channel that asks for a queue
// which does not exist, so that each question has its own.
func declare(connection *amqp.Connection, queue string, arguments amqp.Table) error {
	channel, err := connection.Channel()
	if err != nil {
		return err
	}
	defer channel.Close()
	_, err = channel.QueueDeclarePassive(queue, true, false, false, false, nil)
	var refused *amqp.Error
	if !errors.As(err, &refused) || refused.Code != amqp.NotFound {
		return err
	}
	fresh, err := connection.Channel()
	if err != nil {
		return err
	}
	defer fresh.Close()
	_, err = fresh.QueueDeclare(queue, true, false, false, false, arguments)
	return err
}
