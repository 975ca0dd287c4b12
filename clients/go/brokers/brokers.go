// Package brokers has what the adapters for brokers share: the name of a delivery. It depends on no broker's client.
//
// The adapters are separate modules: natsledger (NATS JetStream), rabbitmqledger (RabbitMQ) and redisledger (Redis
// Streams). Each has a Consumer, whose Run takes deliveries until its context ends, processes each once by ledger.Process,
// and turns the outcome into the broker's words.
package brokers

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"idempotency-ledger.internal/ledger"
)

// ErrNoID reports that a delivery has no id. It is dead-lettered, and never given an id: a redelivery would get another one,
// and have a second effect. A Name function of a Consumer returns an error that wraps it.
var ErrNoID = errors.New("the delivery has no id")

// Name is the name of a delivery, and when its message was made.
type Name struct {
	// Key is the source and the id that the producer gave, the same on each delivery.
	Key ledger.Key
	// OccurredAt is when the producer made the message: one that is older than what the ledger remembers is dead-lettered.
	// Zero: not known.
	OccurredAt time.Time
}

// The bindings of CloudEvents: HTTP and NATS, Kafka, and AMQP with either of its separators. In this order: the last wins.
var prefixes = []string{"ce-", "ce_", "cloudevents:", "cloudevents_"}

const structured = "application/cloudevents+json"

// FromCloudEvent returns the name of a CloudEvent in binary mode (headers with a prefix such as ce-) or in structured mode
// (content-type application/cloudevents+json). isEvent is false where the delivery is not a CloudEvent.
//
// The content-type decides, as in the bindings of CloudEvents: the attributes of a structured event are those of its body, and
// attributes among its headers are not read.
//
// An id of a CloudEvent is unique within its source, so both are those of the event. The error wraps [ErrNoID] where the
// delivery is an event without source or id. Names of headers are compared without regard to case.
func FromCloudEvent(headers map[string]string, body []byte) (name Name, isEvent bool, err error) {
	attributes, kind := Attributes(headers)
	if strings.HasPrefix(strings.ToLower(kind), structured) {
		if attributes, err = decoded(body); err != nil {
			return Name{}, true, err
		}
	} else if len(attributes) == 0 {
		return Name{}, false, nil
	}
	for _, attribute := range []string{"source", "id"} {
		if attributes[attribute] == "" {
			return Name{}, true, fmt.Errorf("%w: the CloudEvent has no attribute %s", ErrNoID, attribute)
		}
	}
	key := ledger.Key{Source: attributes["source"], ID: attributes["id"]}
	return Name{Key: key, OccurredAt: instant(attributes["time"])}, true, nil
}

// Attributes returns the attributes of a CloudEvent in binary mode, by their names in lower case, and the content-type.
// Without headers of CloudEvents the attributes are empty.
func Attributes(headers map[string]string) (attributes map[string]string, contentType string) {
	attributes = map[string]string{}
	names := slices.Sorted(maps.Keys(headers)) // Headers that differ by case alone give the same name on each delivery.
	for _, prefix := range prefixes {
		for _, header := range names {
			if attribute, ok := strings.CutPrefix(strings.ToLower(header), prefix); ok {
				attributes[attribute] = headers[header]
			}
		}
	}
	for _, header := range names {
		if strings.EqualFold(header, "content-type") {
			contentType = headers[header]
		}
	}
	return attributes, contentType
}

// decoded returns the attributes of a structured event that name it, each of them a text.
func decoded(body []byte) (map[string]string, error) {
	var event map[string]json.RawMessage // Not a struct: its fields would also be read from names in another case.
	if !utf8.Valid(body) {               // Invalid bytes would be replaced, so that two ids could become one.
		return nil, fmt.Errorf("%w: the body is not valid UTF-8, and the content-type is %s", ErrNoID, structured)
	}
	if json.Unmarshal(body, &event) != nil || len(event) == 0 {
		return nil, fmt.Errorf("%w: the body is not an object of JSON, and the content-type is %s", ErrNoID, structured)
	}
	attributes := map[string]string{}
	for _, name := range []string{"source", "id", "time"} {
		var text *string
		raw, ok := event[name]
		if !ok || json.Unmarshal(raw, &text) != nil || text == nil {
			continue
		}
		// A lone surrogate is replaced as well: \ud800 and \ud801 would be the same id.
		if strings.ContainsRune(*text, utf8.RuneError) && strings.Contains(strings.ToLower(string(raw)), `\ud`) {
			return nil, fmt.Errorf("%w: the attribute %s has a lone surrogate", ErrNoID, name)
		}
		attributes[name] = *text
	}
	return attributes, nil
}

// instant returns the instant of RFC 3339; zero where the text is not one, or is one that the ledger would not take.
func instant(text string) time.Time {
	found, err := time.Parse(time.RFC3339Nano, strings.ToUpper(text))
	if err != nil || found.UTC().Year() < 1 || found.UTC().Year() > 9999 {
		return time.Time{}
	}
	return found
}
