package main

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kgo"
	"idempotency-ledger.internal/ledger"
	"idempotency-ledger.internal/ledger/brokers"
)

// What the handler is given besides the event. The token is a fence: a store of the handler's refuses a lower one.
const (
	keyHeader         = "Idempotency-Key"
	tokenHeader       = "Idempotency-Ledger-Token"
	attemptHeader     = "Idempotency-Ledger-Attempt"
	attemptsHeader    = "Idempotency-Ledger-Attempts-Left"
	unknownHeader     = "Idempotency-Ledger-Effect-Unknown"
	consumerHeader    = "Idempotency-Ledger-Consumer"
	agent             = "idempotency-ledger-bridge"
	eventMedia        = "application/cloudevents"
	traceHeaderMax    = 512
	attributeNamesAre = "abcdefghijklmnopqrstuvwxyz0123456789"
)

// message is what the bridge reads of a delivery.
type message struct {
	headers map[string]string
	body    []byte
	// encoded: values of headers are percent-encoded already, as the bindings of HTTP and NATS have them.
	encoded bool
}

func ofNATS(delivered jetstream.Msg) message {
	m := message{headers: map[string]string{}, body: delivered.Data(), encoded: true}
	for name, values := range delivered.Headers() {
		if len(values) > 0 {
			m.headers[name] = values[0]
		}
	}
	return m
}

func ofKafka(delivered *kgo.Record) message {
	m := message{headers: map[string]string{}, body: delivered.Value}
	for _, header := range delivered.Headers {
		if utf8.Valid(header.Value) {
			m.headers[header.Key] = string(header.Value)
		} else {
			delete(m.headers, header.Key)
		}
	}
	return m
}

// event are the headers of the CloudEvent, by its HTTP binding: in structured mode the content-type alone, in binary mode the
// attributes. A message that is not a CloudEvent becomes one in binary mode, with the names that the ledger has for it.
func (m message) event(claim *ledger.Claim, plainType string) http.Header {
	headers := http.Header{}
	attributes, contentType := brokers.Attributes(m.headers)
	if !strings.HasPrefix(strings.ToLower(contentType), eventMedia) {
		if len(attributes) == 0 {
			_, key := claim.Names()
			attributes = map[string]string{"specversion": "1.0", "id": key.ID, "source": key.Source, "type": plainType}
			m.encoded = false
		}
		if contentType == "" {
			contentType = attributes["datacontenttype"]
		}
	}
	delete(attributes, "datacontenttype") // It must not be a header as well.
	for name, value := range attributes {
		if name != "" && strings.Trim(name, attributeNamesAre) == "" { // Any other name may not be one of HTTP.
			headers.Set("ce-"+name, percent(value, m.encoded))
		}
	}
	if contentType != "" && printable(contentType) {
		headers.Set("Content-Type", contentType)
	}
	for _, name := range []string{"traceparent", "tracestate"} {
		value := attributes[name]
		for header, found := range m.headers {
			if strings.EqualFold(header, name) {
				value = found
			}
		}
		if value != "" && len(value) <= traceHeaderMax && printable(value) {
			headers.Set(name, value)
		}
	}
	return headers
}

// request are the headers of the POST.
func (m message) request(claim *ledger.Claim, plainType string) http.Header {
	headers := m.event(claim, plainType)
	consumer, _ := claim.Names()
	headers.Set("User-Agent", agent)
	headers.Set(keyHeader, claim.IdempotencyKey())
	headers.Set(tokenHeader, strconv.FormatInt(claim.Token(), 10))
	headers.Set(attemptHeader, strconv.Itoa(claim.Attempt()))
	headers.Set(consumerHeader, percent(consumer, false))
	if left, limited := claim.AttemptsLeft(); limited {
		headers.Set(attemptsHeader, strconv.Itoa(left))
	}
	headers.Set(unknownHeader, strconv.FormatBool(claim.EffectUnknown()))
	return headers
}

// percent encodes a value as the HTTP binding of CloudEvents demands: space, quote, percent, and what is not visible ASCII.
// A value that is encoded already keeps its percent signs.
func percent(value string, encoded bool) string {
	var text strings.Builder
	for _, b := range []byte(value) {
		if b <= 0x20 || b > 0x7E || b == '"' || b == '%' && !encoded {
			fmt.Fprintf(&text, "%%%02X", b)
		} else {
			text.WriteByte(b)
		}
	}
	return text.String()
}

// printable reports whether a text may be the value of a header.
func printable(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < 0x20 || r > 0x7E })
}
