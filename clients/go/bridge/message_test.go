package main

import (
	"net/http"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kgo"
)

// received are the headers of a POST.
func received(t *testing.T, m message) http.Header {
	t.Helper()
	var found http.Header
	bridged(t, &fake{}, handler(t, func(_ http.ResponseWriter, r *http.Request) { found = r.Header.Clone() })).process(t, m)
	return found
}

func TestHeadersOfAPost(t *testing.T) {
	record := &kgo.Record{Headers: []kgo.RecordHeader{
		{Key: "ce_specversion", Value: []byte("1.0")}, {Key: "ce_id", Value: []byte("50% €\r\nX-Evil: 1")}, {Key: "ce_source", Value: []byte("/shop")},
		{Key: "ce_type", Value: []byte("order")}, {Key: "ce_datacontenttype", Value: []byte("text/plain")}, {Key: "ce_a b", Value: []byte("x")},
		{Key: "content-type", Value: []byte("application/json")}, {Key: "idempotency-key", Value: []byte("mine")}, {Key: "secret", Value: []byte("x")},
		{Key: "traceparent", Value: []byte("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")}, {Key: "tracestate", Value: []byte("a=\x01")},
	}}
	found := received(t, ofKafka(record))
	for name, want := range map[string]string{
		"Ce-Specversion": "1.0", "Ce-Id": "50%25%20%E2%82%AC%0D%0AX-Evil:%201", "Ce-Source": "/shop", "Ce-Type": "order",
		"Content-Type": "application/json", "Idempotency-Key": "key-of-1", "Idempotency-Ledger-Token": "42",
		"Idempotency-Ledger-Attempt": "2", "Idempotency-Ledger-Attempts-Left": "4", "Idempotency-Ledger-Consumer": "payments",
		"Idempotency-Ledger-Effect-Unknown": "true", "User-Agent": "idempotency-ledger-bridge",
		"Traceparent":        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		"Ce-Datacontenttype": "", "Tracestate": "", "X-Evil": "", "Secret": "", "Authorization": "",
	} {
		if values := found.Values(name); found.Get(name) != want || want != "" && len(values) != 1 {
			t.Errorf("%s: %q, want %q", name, values, want)
		}
	}
}

func TestModesOfAnEvent(t *testing.T) {
	for what, test := range map[string]struct {
		message message
		want    map[string]string
	}{
		"structured": {structured, map[string]string{"Content-Type": "application/cloudevents+json", "Ce-Id": "", "Ce-Source": ""}},
		"binary, of NATS": {
			ofNATS(fetched{header: nats.Header{"ce-id": {"a%20b"}, "ce-source": {"shop"}, "ce-datacontenttype": {"text/plain"}}}),
			map[string]string{"Content-Type": "text/plain", "Ce-Id": "a%20b", "Ce-Source": "shop", "Ce-Datacontenttype": ""},
		},
		"the trace of an event": {
			ofNATS(fetched{header: nats.Header{"ce-id": {"1"}, "ce-source": {"shop"}, "ce-traceparent": {"00-1-2-01"}}}),
			map[string]string{"Traceparent": "00-1-2-01", "Ce-Traceparent": "00-1-2-01"},
		},
		"not an event": {
			message{headers: map[string]string{"Content-Type": "text/csv"}},
			map[string]string{
				"Content-Type": "text/csv", "Ce-Id": "1", "Ce-Source": "shop", "Ce-Specversion": "1.0", "Ce-Type": "idempotency-ledger.bridge.message",
			},
		},
		"without a content-type": {message{}, map[string]string{"Content-Type": "", "Ce-Id": "1"}},
	} {
		t.Run(what, func(t *testing.T) {
			found := received(t, test.message)
			for name, want := range test.want {
				if found.Get(name) != want {
					t.Errorf("%s: %q, want %q", name, found.Get(name), want)
				}
			}
		})
	}
}

// fetched is a message of JetStream as far as the bridge reads it.
type fetched struct {
	jetstream.Msg
	header nats.Header
	data   []byte
}

func (f fetched) Headers() nats.Header { return f.header }
func (f fetched) Data() []byte         { return f.data }
