package natsledger

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"idempotency-ledger.internal/ledger"
	"idempotency-ledger.internal/ledger/brokers"
)

// stored is a stream that keeps the last message.
type stored struct {
	jetstream.JetStream
	last *nats.Msg
}

func (s *stored) PublishMsg(_ context.Context, message *nats.Msg, _ ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	s.last = message
	return &jetstream.PubAck{}, nil
}

// delivered is a message with these headers.
type delivered struct {
	jetstream.Msg
	headers nats.Header
}

func (d *delivered) Headers() nats.Header { return d.headers }
func (d *delivered) Data() []byte         { return []byte("{}") }
func (d *delivered) Metadata() (*jetstream.MsgMetadata, error) {
	return &jetstream.MsgMetadata{Stream: "ORDERS", Sequence: jetstream.SequencePair{Stream: 7}, Timestamp: time.Unix(0, 8)}, nil
}

func TestDeadLetterHasNoHeadersForItsStream(t *testing.T) {
	stream := &stored{}
	message := &delivered{headers: nats.Header{
		"Nats-Msg-Id": {"1"}, "Nats-Rollup": {"all"}, "Nats-TTL": {"1s"}, "nats-expected-stream": {"ORDERS"}, "Trace": {"a", "b"},
	}}
	if err := ToSubject(stream, "dead")(t.Context(), message, "no\nfunds: 5 €"); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"Nats-Msg-Id": "dead/ORDERS/7/8", IDHeader: "1", ReasonHeader: "no?funds: 5 ?", "Trace": "a", "Nats-Rollup": "", "Nats-TTL": "",
	} {
		if found := stream.last.Header.Get(name); found != want {
			t.Errorf("%s is %q, not %q", name, found, want)
		}
	}
	if len(stream.last.Header) != 4 || len(stream.last.Header["Trace"]) != 2 {
		t.Errorf("the headers are %v", stream.last.Header)
	}
}

func TestNames(t *testing.T) {
	for what, test := range map[string]struct {
		headers nats.Header
		want    ledger.Key
	}{
		"a header":     {nats.Header{"Nats-Msg-Id": {"1"}}, ledger.Key{Source: "ORDERS", ID: "1"}},
		"a CloudEvent": {nats.Header{"Nats-Msg-Id": {"1"}, "ce-id": {"2"}, "ce-source": {"shop"}}, ledger.Key{Source: "shop", ID: "2"}},
		"nothing":      {nil, ledger.Key{}},
	} {
		found, err := Name(&delivered{headers: test.headers})
		if found.Key != test.want || errors.Is(err, brokers.ErrNoID) != (test.want.ID == "") {
			t.Errorf("%s: %v, %v", what, found, err)
		}
	}
}
