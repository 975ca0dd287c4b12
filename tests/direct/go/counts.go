package main

import (
	"maps"
	"sync"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// counts are those of all consumers together.
type counts struct {
	Calls int `json:"calls"`
	// Failed calls, by their status and reason.
	Failures map[string]int `json:"failures"`
	// Calls that failed as often as they may be repeated.
	GivenUp int `json:"given_up"`
	// How long a call took at most.
	SlowestMs int64 `json:"slowest_ms"`
}

type counter struct {
	lock   sync.Mutex
	counts counts
}

func (c *counter) called(took time.Duration) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.counts.Calls++
	c.counts.SlowestMs = max(c.counts.SlowestMs, took.Milliseconds())
}

// failed takes the ledger's reason where it gave one, else what the client says; and whether the answer had begun to come,
// after which gRPC repeats no call.
func (c *counter) failed(err error, header, trailer metadata.MD) {
	reason := status.Convert(err).Message()
	if given := trailer.Get("idempotency-ledger-reason"); len(given) > 0 {
		reason = given[0]
	}
	if header.Len() > 0 {
		reason += ", its answer had begun"
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	c.counts.Failures[status.Code(err).String()+": "+reason]++
}

func (c *counter) gaveUp() {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.counts.GivenUp++
}

func (c *counter) sofar() counts {
	c.lock.Lock()
	defer c.lock.Unlock()
	copied := c.counts
	copied.Failures = maps.Clone(copied.Failures)
	return copied
}
