package rabbitmqledger

import (
	"errors"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"idempotency-ledger.internal/ledger"
	"idempotency-ledger.internal/ledger/brokers"
)

func TestNames(t *testing.T) {
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	for what, test := range map[string]struct {
		message amqp.Delivery
		want    brokers.Name
	}{
		"a property":   {amqp.Delivery{MessageId: "1"}, brokers.Name{Key: ledger.Key{Source: "orders", ID: "1"}}},
		"a CloudEvent": {amqp.Delivery{MessageId: "1", Headers: amqp.Table{"cloudEvents:id": int32(2), "cloudEvents:source": "shop", "cloudEvents:time": noon}}, brokers.Name{Key: ledger.Key{Source: "shop", ID: "2"}, OccurredAt: noon}},
		"structured":   {amqp.Delivery{ContentType: "application/cloudevents+json", Body: []byte(`{"id": "3", "source": "shop"}`)}, brokers.Name{Key: ledger.Key{Source: "shop", ID: "3"}}},
		// Its text would differ from language to language.
		"an id in bytes":                       {amqp.Delivery{Headers: amqp.Table{"cloudEvents:id": []byte("2"), "cloudEvents:source": "shop"}}, brokers.Name{}},
		"nothing":                              {amqp.Delivery{}, brokers.Name{}},
		"an id that the producer did not send": {amqp.Delivery{MessageId: "1", Headers: amqp.Table{"without-message-id": "true"}}, brokers.Name{}},
	} {
		found, err := Name("orders", test.message)
		if found.Key != test.want.Key || !found.OccurredAt.Equal(test.want.OccurredAt) || errors.Is(err, brokers.ErrNoID) != (test.want.Key.ID == "") {
			t.Errorf("%s: %v, %v", what, found, err)
		}
	}
}

func TestPostponedMessageWaitsUntilItIsDue(t *testing.T) {
	for what, test := range map[string]struct {
		due  any
		most time.Duration
	}{
		"no header":     {nil, 0},
		"another type":  {"soon", 0},
		"over":          {time.Now().Add(-time.Second).UnixMilli(), 0},
		"in a minute":   {time.Now().Add(time.Minute).UnixMilli(), time.Minute},
		"a wrong clock": {time.Now().Add(1000 * time.Hour).UnixMilli(), 15 * time.Minute},
	} {
		wait := notDue(amqp.Delivery{Headers: amqp.Table{DueHeader: test.due}})
		if wait > test.most || wait < test.most-time.Second && test.most > 0 {
			t.Errorf("%s: %v", what, wait)
		}
	}
}

func TestQueuesHaveNoDeliveryLimit(t *testing.T) {
	for version, limited := range map[string]bool{"3.13.7": false, "4.0.5": true, "": false} {
		arguments := unlimited(&amqp.Connection{Properties: amqp.Table{"version": version}})
		if _, set := arguments["x-delivery-limit"]; set != limited {
			t.Errorf("%s: %v", version, arguments)
		}
	}
}
