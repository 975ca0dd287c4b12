package natsledger

import (
	"context"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// ReasonHeader is the header of a dead letter that says why it is one.
	ReasonHeader = "Dead-Letter-Reason"
	// IDHeader is the header of a dead letter with the Nats-Msg-Id of its original, if there was one.
	IDHeader = "Dead-Letter-Msg-Id"
)

// DeadLetter stores a copy of a message before it is acknowledged: see [ToSubject]. The reason is the outcome's, or NO_ID;
// it may be empty. The context bounds the call. After an error the message is not acknowledged, and is delivered again.
type DeadLetter func(ctx context.Context, message jetstream.Msg, reason string) error

// ToSubject stores dead letters under a subject of a stream, each once for a message of the broker: JetStream confirms the
// copy. It has the message's headers, except those that mean something to the stream of the copy (Nats-Expected-Stream,
// Nats-Rollup, Nats-TTL and so on), and the headers [ReasonHeader] and [IDHeader].
func ToSubject(stream jetstream.JetStream, subject string) DeadLetter {
	return func(ctx context.Context, message jetstream.Msg, reason string) error {
		place, err := message.Metadata()
		if err != nil {
			return err
		}
		letter := &nats.Msg{Subject: subject, Data: message.Data(), Header: nats.Header{}}
		for name, values := range message.Headers() {
			if !strings.HasPrefix(strings.ToLower(name), "nats-") {
				letter.Header[name] = values
			}
		}
		if id := message.Headers().Get(jetstream.MsgIDHeader); id != "" {
			letter.Header.Set(IDHeader, id)
		}
		letter.Header.Set(ReasonHeader, printable(reason))
		// It names the broker's message, not the event: a replay that is dead-lettered again is not dropped. The instant
		// differs where a stream was made again, and counts from 1.
		id := fmt.Sprintf("%s/%s/%d/%d", subject, place.Stream, place.Sequence.Stream, place.Timestamp.UnixNano())
		letter.Header.Set(jetstream.MsgIDHeader, id)
		_, err = stream.PublishMsg(ctx, letter)
		return err
	}
}

// printable is the text as a header may have it.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r > 0x7E {
			return '?'
		}
		return r
	}, text)
}
