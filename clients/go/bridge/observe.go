package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"idempotency-ledger.internal/ledger"
)

// The bounds of the buckets of durations, in seconds.
var buckets = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}

// metrics are what the bridge counts, in the text format of Prometheus.
type metrics struct {
	inFlight atomic.Int64

	mu         sync.Mutex
	deliveries map[string]uint64
	posts      map[[2]string]uint64 // by status and settlement
	durations  map[string]*histogram
	lag        int64 // negative: not known
}

type histogram struct {
	counts []uint64 // of each bucket, and of what is beyond
	sum    float64
}

func newMetrics() *metrics {
	return &metrics{deliveries: map[string]uint64{}, posts: map[[2]string]uint64{}, durations: map[string]*histogram{}, lag: -1}
}

// delivered counts the outcome of a delivery.
func (m *metrics) delivered(outcome ledger.Outcome[[]byte]) {
	name := "later"
	switch {
	case outcome.Advice == ledger.DeadLetter:
		name = "dead_letter"
	case outcome.Advice == ledger.Ack && outcome.Replayed:
		name = "repeated"
	case outcome.Advice == ledger.Ack && outcome.Reason == "":
		name = "completed"
	case outcome.Advice == ledger.Ack: // By another claim, or by a replay run that suppresses effects.
		name = "acknowledged"
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.deliveries[name]++
}

// posted counts a POST; status 0: without an answer.
func (m *metrics) posted(status int, settled string, took time.Duration) {
	name := "none"
	if status >= 100 && status <= 599 { // Others would be series without a bound.
		name = strconv.Itoa(status)
	} else if status != 0 {
		name = "other"
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.posts[[2]string{name, settled}]++
	h := m.durations[settled]
	if h == nil {
		h = &histogram{counts: make([]uint64, len(buckets)+1)}
		m.durations[settled] = h
	}
	place, _ := slices.BinarySearch(buckets, took.Seconds())
	h.counts[place]++
	h.sum += took.Seconds()
}

// behind sets the lag: how many messages are not acknowledged. Negative: not known.
func (m *metrics) behind(messages int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lag = messages
}

const prefix = "idempotency_ledger_bridge_"

// text is the metrics, sorted.
func (m *metrics) text() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out strings.Builder
	describe(&out, "deliveries_total", "counter", "Deliveries by outcome, before their acknowledgement.")
	for _, outcome := range slices.Sorted(maps.Keys(m.deliveries)) {
		fmt.Fprintf(&out, "%sdeliveries_total{outcome=%q} %d\n", prefix, outcome, m.deliveries[outcome])
	}
	describe(&out, "posts_total", "counter", "POSTs by the status of the answer, and by how the claim was settled.")
	for _, names := range slices.SortedFunc(maps.Keys(m.posts), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		fmt.Fprintf(&out, "%sposts_total{status=%q,settled=%q} %d\n", prefix, names[0], names[1], m.posts[names])
	}
	describe(&out, "post_duration_seconds", "histogram", "Time from the beginning of a POST to the end of its answer.")
	for _, settled := range slices.Sorted(maps.Keys(m.durations)) {
		m.durations[settled].text(&out, settled)
	}
	describe(&out, "posts_in_flight", "gauge", "POSTs without an answer yet.")
	fmt.Fprintf(&out, "%sposts_in_flight %d\n", prefix, m.inFlight.Load())
	if m.lag >= 0 {
		describe(&out, "lag_messages", "gauge", "Messages that the broker has not delivered yet, or without an acknowledgement.")
		fmt.Fprintf(&out, "%slag_messages %d\n", prefix, m.lag)
	}
	return out.String()
}

func describe(out io.Writer, name, kind, help string) {
	fmt.Fprintf(out, "# HELP %s%s %s\n# TYPE %s%s %s\n", prefix, name, help, prefix, name, kind)
}

func (h *histogram) text(out io.Writer, settled string) {
	var below uint64
	for place, bound := range buckets {
		below += h.counts[place]
		fmt.Fprintf(out, "%spost_duration_seconds_bucket{settled=%q,le=%q} %d\n", prefix, settled, strconv.FormatFloat(bound, 'g', -1, 64), below)
	}
	below += h.counts[len(buckets)]
	fmt.Fprintf(out, "%spost_duration_seconds_bucket{settled=%q,le=\"+Inf\"} %d\n", prefix, settled, below)
	fmt.Fprintf(out, "%spost_duration_seconds_sum{settled=%q} %g\n", prefix, settled, h.sum)
	fmt.Fprintf(out, "%spost_duration_seconds_count{settled=%q} %d\n", prefix, settled, below)
}

// health is whether the bridge takes deliveries.
type health struct {
	stop  context.Context
	ready atomic.Pointer[func() bool] // nil: not yet
}

// state is what /readyz says.
func (h *health) state() (text string, ready bool) {
	check := h.ready.Load()
	switch {
	case h.stop.Err() != nil:
		return "draining", false
	case check == nil:
		return "starting", false
	case !(*check)():
		return "the broker is not connected", false
	}
	return "ready", true
}

// serve serves /livez, /readyz and /metrics until the function that it returns is called.
func serve(address string, m *metrics, h *health) (func(), error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "alive") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		text, ready := h.state()
		if !ready {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		fmt.Fprintln(w, text)
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		io.WriteString(w, m.text())
	})
	server := &http.Server{
		Handler: mux, ReadTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 8 << 10,
	}
	go server.Serve(listener)
	return func() { server.Close() }, nil
}
