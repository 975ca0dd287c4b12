package brokers

import (
	"errors"
	"strings"
	"testing"
	"time"

	"idempotency-ledger.internal/ledger"
)

func TestNamesOfCloudEvents(t *testing.T) {
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	json := map[string]string{"Content-Type": "application/cloudevents+json; charset=utf-8"}
	for what, test := range map[string]struct {
		headers map[string]string
		body    string
		want    Name
		isEvent bool
		noID    bool
	}{
		"no event":       {headers: map[string]string{"content-type": "application/json"}, body: `{"id": "1"}`},
		"HTTP and NATS":  {headers: map[string]string{"ce-source": "shop", "CE-ID": "1"}, want: named("shop", "1", time.Time{}), isEvent: true},
		"Kafka":          {headers: map[string]string{"ce_source": "shop", "ce_id": "1", "ce_time": "2026-01-02T12:00:00Z"}, want: named("shop", "1", noon), isEvent: true},
		"AMQP":           {headers: map[string]string{"cloudEvents:source": "shop", "cloudEvents:id": "1"}, want: named("shop", "1", time.Time{}), isEvent: true},
		"without source": {headers: map[string]string{"ce-id": "1"}, isEvent: true, noID: true},
		"an empty id":    {headers: map[string]string{"ce-id": "", "ce-source": "shop"}, isEvent: true, noID: true},

		"structured":               {headers: json, body: `{"id": "1", "source": "shop", "time": "2026-01-02t13:00:00+01:00"}`, want: named("shop", "1", noon), isEvent: true},
		"names in another case":    {headers: json, body: `{"ID": "1", "source": "shop"}`, isEvent: true, noID: true},
		"an id that is a number":   {headers: json, body: `{"id": 1, "source": "shop"}`, isEvent: true, noID: true},
		"null":                     {headers: json, body: `{"id": null, "source": "shop"}`, isEvent: true, noID: true},
		"neither source nor id":    {headers: json, body: `{"type": "payment"}`, isEvent: true, noID: true},
		"an array":                 {headers: json, body: `[]`, isEvent: true, noID: true},
		"no JSON":                  {headers: json, body: `{`, isEvent: true, noID: true},
		"bytes that are not UTF-8": {headers: json, body: "{\"id\": \"\xff\", \"source\": \"shop\"}", isEvent: true, noID: true},
		"a byte order mark":        {headers: json, body: "\ufeff" + withData("1"), isEvent: true, noID: true},
		"NaN":                      {headers: json, body: withData("NaN"), isEvent: true, noID: true},
		"Infinity":                 {headers: json, body: withData("Infinity"), isEvent: true, noID: true},
		"negative Infinity":        {headers: json, body: withData("-Infinity"), isEvent: true, noID: true},
		"deeply nested":            {headers: json, body: withData(strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)), isEvent: true, noID: true},
		"a number of many digits":  {headers: json, body: withData(strings.Repeat("1", 5_000)), want: named("shop", "1", time.Time{}), isEvent: true},
		"a lone surrogate":         {headers: json, body: `{"id": "\ud800", "source": "shop"}`, isEvent: true, noID: true},
		"a pair of surrogates":     {headers: json, body: `{"id": "\ud83d\ude00", "source": "shop"}`, want: named("shop", "😀", time.Time{}), isEvent: true},
		"a replacement character":  {headers: json, body: `{"id": "\ufffd", "source": "shop"}`, want: named("shop", "\ufffd", time.Time{}), isEvent: true},
		// A structured event may repeat its attributes as headers: its body counts. In another format it cannot be read.
		"structured, with headers":          {headers: map[string]string{"content-type": "application/cloudevents+json", "ce_id": "8", "ce_source": "other"}, body: `{"id": "1", "source": "shop"}`, want: named("shop", "1", time.Time{}), isEvent: true},
		"headers alone of a structured one": {headers: map[string]string{"content-type": "application/cloudevents+json", "ce_id": "8", "ce_source": "other"}, body: `{}`, isEvent: true, noID: true},
		"in another format, with headers":   {headers: map[string]string{"content-type": "application/cloudevents+avro", "ce_id": "1", "ce_source": "shop"}, want: named("shop", "1", time.Time{}), isEvent: true},
		"a batch":                           {headers: map[string]string{"content-type": "application/cloudevents-batch+json"}, body: `[]`},
		"a time without zone":               {headers: json, body: `{"id": "1", "source": "shop", "time": "2026-01-02T12:00:00"}`, want: named("shop", "1", time.Time{}), isEvent: true},
		"a time before year 1":              {headers: json, body: `{"id": "1", "source": "shop", "time": "0000-01-01T00:00:00Z"}`, want: named("shop", "1", time.Time{}), isEvent: true},
		"a time after year 9999":            {headers: json, body: `{"id": "1", "source": "shop", "time": "9999-12-31T23:00:00-02:00"}`, want: named("shop", "1", time.Time{}), isEvent: true},
	} {
		t.Run(what, func(t *testing.T) {
			found, isEvent, err := FromCloudEvent(test.headers, []byte(test.body))
			if isEvent != test.isEvent || errors.Is(err, ErrNoID) != test.noID || (err != nil) != test.noID {
				t.Fatalf("event: %v, error: %v", isEvent, err)
			}
			if found.Key != test.want.Key || !found.OccurredAt.Equal(test.want.OccurredAt) {
				t.Errorf("found %v, want %v", found, test.want)
			}
		})
	}
}

func named(source, id string, at time.Time) Name {
	return Name{Key: ledger.Key{Source: source, ID: id}, OccurredAt: at}
}

func withData(data string) string {
	return `{"id": "1", "source": "shop", "data": ` + data + `}`
}
