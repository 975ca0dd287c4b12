package ledger

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"idempotency-ledger.internal/ledger/ledgerv1"
)

const (
	payloadMax     = 256 << 10
	headersMax     = 64
	headersSizeMax = 16 << 10
	headerNameMax  = 256
	topicMax       = 256
	messageKeyMax  = 512
	attributeMax   = 128
)

// Header is one header of a [Message].
type Header struct {
	// Name has 1 to 256 bytes of UTF-8.
	Name string
	// Value is any bytes; all headers of a message together have at most 16 KiB, names included.
	Value []byte
}

// Message is what a broker delivered: a payload, and what came with it. The ledger keeps it as it is.
//
// A message beyond one of its bounds is itself at fault: nothing is sent, and its outcome is [DeadLetter], with an
// [*InvalidFieldError] in Outcome.Err.
type Message struct {
	// Payload has at most 256 KiB.
	Payload []byte
	// Headers are at most 64.
	Headers []Header
	// Topic is the topic, queue or stream that it came from: at most 256 bytes.
	Topic string
	// Partition is that of the topic; nil where the broker does not have it.
	Partition *int32
	// Offset is the offset or the sequence number; nil where the broker does not have it.
	Offset *int64
	// MessageKey is the broker's own key: at most 512 bytes.
	MessageKey []byte
	// EventType is a label of the server's metrics; EventVersion and ContentType have at most 128 bytes.
	EventType, EventVersion, ContentType string
}

// StoredMessage is a message that the ledger kept, as a worker's handler sees it.
type StoredMessage struct {
	Message
	// Key is its name.
	Key Key
	// StoredAt is when it was stored, by the store's clock.
	StoredAt time.Time
}

// fault is why the ledger would refuse the message; nil if it would not.
func (m Message) fault() *InvalidFieldError {
	for _, field := range []struct {
		name, text string
		most       int
	}{
		{"topic", m.Topic, topicMax}, {"event_version", m.EventVersion, attributeMax}, {"content_type", m.ContentType, attributeMax},
		{"event_type", m.EventType, len(m.EventType)}, // Cut by the ledger.
	} {
		if !utf8.ValidString(field.text) {
			return &InvalidFieldError{"message." + field.name, "is not valid UTF-8"}
		}
		if len(field.text) > field.most {
			return tooLong(field.name, len(field.text), field.most)
		}
	}
	if len(m.Payload) > payloadMax {
		return tooLong("payload", len(m.Payload), payloadMax)
	}
	if len(m.MessageKey) > messageKeyMax {
		return tooLong("message_key", len(m.MessageKey), messageKeyMax)
	}
	if len(m.Headers) > headersMax {
		return &InvalidFieldError{"message.headers", fmt.Sprintf("has %d headers; at most %d are allowed", len(m.Headers), headersMax)}
	}
	size := 0
	for _, header := range m.Headers {
		if len(header.Name) < 1 || len(header.Name) > headerNameMax || !utf8.ValidString(header.Name) {
			return &InvalidFieldError{"message.headers.name", fmt.Sprintf("must be 1 to %d bytes of UTF-8", headerNameMax)}
		}
		size += len(header.Name) + len(header.Value)
	}
	if size > headersSizeMax {
		return tooLong("headers", size, headersSizeMax)
	}
	return nil
}

func tooLong(field string, size, most int) *InvalidFieldError {
	return &InvalidFieldError{"message." + field, fmt.Sprintf("has %d bytes; at most %d are allowed", size, most)}
}

func (m Message) sent() *ledgerv1.Message {
	sent := &ledgerv1.Message{
		Payload: m.Payload, Topic: m.Topic, Partition: m.Partition, Offset: m.Offset, MessageKey: m.MessageKey,
		EventType: m.EventType, EventVersion: m.EventVersion, ContentType: m.ContentType,
	}
	for _, header := range m.Headers {
		sent.Headers = append(sent.Headers, &ledgerv1.Header{Name: header.Name, Value: header.Value})
	}
	return sent
}

func storedMessage(handed *ledgerv1.Handed) StoredMessage {
	kept, key := handed.GetMessage(), handed.GetKey()
	found := StoredMessage{
		Message: Message{
			Payload: kept.GetPayload(), Topic: kept.GetTopic(), Partition: kept.Partition, Offset: kept.Offset,
			MessageKey: kept.GetMessageKey(), EventType: kept.GetEventType(), EventVersion: kept.GetEventVersion(),
			ContentType: kept.GetContentType(),
		},
		Key: Key{Source: key.GetSource(), ID: key.GetId()},
	}
	for _, header := range kept.GetHeaders() {
		found.Headers = append(found.Headers, Header{header.GetName(), header.GetValue()})
	}
	if handed.StoredAt != nil {
		found.StoredAt = handed.GetStoredAt().AsTime()
	}
	return found
}

// Store keeps a message in the ledger's inbox; [Work] processes it later. It returns when the message is durable. Acknowledge
// the broker's message on [Ack] alone.
//
// The fingerprint is that of the payload, unless the option [Fingerprint] gives another one; [OccurredAt] counts as well.
// Outcome.Reason is empty where the message is stored, already_stored or completed (both Replayed) where the ledger knows it;
// else why it is not: fingerprint_mismatch, outside_window, failed, or the ledger's reason, such as INBOX_OFF, or BACKLOG_FULL
// with a Delay.
//
// An error is returned where nothing is known of the message: [ErrClosed], an [*InvalidFieldError] where the program is at
// fault, and the cause of ctx where it has ended. The outcome is RetryLater then.
func (l *Ledger) Store(ctx context.Context, key Key, message Message, options ...DeliveryOption) (Outcome[[]byte], error) {
	if !l.inflight.enter(false) {
		return later("CLOSING"), ErrClosed
	}
	defer l.inflight.leave()
	request, err := l.storeRequest(key, message, options)
	if err != nil {
		return later(reasonOf(err)), err
	}
	found := l.stored(ctx, key, message, request)
	if found.Advice == RetryLater && ctx.Err() != nil {
		return found, context.Cause(ctx)
	}
	l.report.outcome(found)
	return found, nil
}

func (l *Ledger) stored(ctx context.Context, key Key, message Message, request *ledgerv1.StoreRequest) outcome {
	fault := key.fault()
	if fault == nil {
		fault = message.fault()
	}
	if fault != nil { // The message is at fault, and the ledger would refuse it in the same way.
		return outcome{Advice: DeadLetter, Reason: "INVALID_FIELD", Detail: fault.Error(), Err: fault}
	}
	answer, _, failed := repeated(ctx, l.rpc.Store, request, claimBudget, callTimeout)
	if failed != nil {
		return l.refused(failed, outcome{})
	}
	name := verdictName(answer)
	if answer.GetVerdict() == nil || !knownAdvice(answer.GetAdvice()) { // Rule 8.
		return later(name)
	}
	base := outcome{Reason: name, Replayed: name == "already_stored" || name == "completed"}
	if name == "stored" {
		base.Reason = ""
	}
	return advised(answer, base)
}

func (l *Ledger) storeRequest(key Key, message Message, options []DeliveryOption) (*ledgerv1.StoreRequest, error) {
	d := delivery{}
	for _, option := range options {
		option(&d)
	}
	if !d.hasBody && !d.hasPrint {
		d.body, d.hasBody = message.Payload, true
	}
	if key.ReplayRun != "" {
		return nil, &InvalidFieldError{"key.replay_run", "must be empty: a message of a replay run is not stored"}
	}
	digest, err := d.digest()
	if err != nil {
		return nil, err
	}
	sent := message.sent()
	sent.EventType = or(sent.EventType, strings.ToValidUTF8(d.eventType, "?"))
	request := &ledgerv1.StoreRequest{
		Key:     &ledgerv1.EntryKey{Consumer: l.consumer, Source: key.Source, Id: key.ID},
		Message: sent, Fingerprint: digest,
	}
	request.OccurredAt, err = d.occurred()
	return request, err
}

// verdictName is the name of an answer's verdict, as the protobuf files have it.
func verdictName(answer proto.Message) string {
	message := answer.ProtoReflect()
	if field := message.WhichOneof(message.Descriptor().Oneofs().ByName("verdict")); field != nil {
		return string(field.Name())
	}
	return "UNKNOWN_VERDICT"
}
