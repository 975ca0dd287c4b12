package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"idempotency-ledger.internal/ledger"
	"idempotency-ledger.internal/ledger/brokers"
	"idempotency-ledger.internal/ledger/internal/adapter"
)

// one is a source of one delivery, which runs it as the adapters do.
func (b *bridge) one(stop context.Context) error {
	pool, err := adapter.New(stop, adapter.Settings{Ledger: b.client, Grace: b.settings.grace, Observe: b.metrics.delivered, Logger: b.logger})
	if err != nil {
		return err
	}
	defer pool.Close()
	taken := false
	return pool.Run(func(int) int {
		if taken {
			<-pool.Done()
			return 0
		}
		taken = true
		pool.Go(func() {
			pool.Process(pool.Context(), func() (brokers.Name, error) { return brokers.Name{Key: ledger.Key{Source: "shop", ID: "1"}}, nil },
				nil, func(ctx context.Context, claim *ledger.Claim) ([]byte, error) {
					return b.poster.post(ctx, claim, structured)
				})
		})
		return 1
	})
}

func TestStopLetsRunningPostsEnd(t *testing.T) {
	stop, end := context.WithCancel(t.Context())
	f := &fake{}
	b := bridged(t, f, handler(t, func(http.ResponseWriter, *http.Request) {
		end()
		time.Sleep(300 * time.Millisecond)
	}))
	if err := b.run(stop, b.one); err != nil || f.only(t) != `complete ""` {
		t.Errorf("settled by %q, error %v", f.only(t), err)
	}
	if text := b.metrics.text(); !strings.Contains(text, `deliveries_total{outcome="completed"} 1`) {
		t.Errorf("the metrics are %s", text)
	}
}

func TestStopEndsWithTheGrace(t *testing.T) {
	stop, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	b := bridged(t, &fake{}, handler(t, func(_ http.ResponseWriter, r *http.Request) {
		end()
		<-ended
	}), "--grace", "1s")
	defer close(ended)
	began := time.Now()
	if err := b.run(stop, b.one); err == nil || !strings.Contains(err.Error(), "1 deliveries still run") || time.Since(began) > 10*time.Second {
		t.Errorf("after %v the error is %v", time.Since(began), err)
	}
}

func TestHealthAndMetrics(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	b := bridged(t, &fake{}, handler(t, answering(429, "")), "--observe-listen", address)
	asked := func(path string) (int, string) {
		response, err := http.Get("http://" + address + path)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body)
		return response.StatusCode, string(text)
	}
	stop, end := context.WithCancel(t.Context())
	connected := true
	err = b.run(stop, func(context.Context) error {
		if status, text := asked("/readyz"); status != 503 || text != "starting\n" {
			t.Errorf("before the broker is there: %d %s", status, text)
		}
		check := func() bool { return connected }
		b.health.ready.Store(&check)
		if status, _ := asked("/readyz"); status != 200 {
			t.Errorf("ready: %d", status)
		}
		connected = false
		if status, _ := asked("/readyz"); status != 503 {
			t.Errorf("not connected: %d", status)
		}
		b.process(t, structured)
		b.metrics.behind(7)
		_, text := asked("/metrics")
		for _, line := range []string{
			`posts_total{status="429",settled="retry"} 1`, `post_duration_seconds_count{settled="retry"} 1`, "posts_in_flight 0", "lag_messages 7",
		} {
			if !strings.Contains(text, "\nidempotency_ledger_bridge_"+line+"\n") {
				t.Errorf("no line %s in %s", line, text)
			}
		}
		end()
		if status, text := asked("/readyz"); status != 503 || text != "draining\n" {
			t.Errorf("after a stop: %d %s", status, text)
		}
		if status, _ := asked("/livez"); status != 200 {
			t.Errorf("alive: %d", status)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestWrongSettingIsNamed(t *testing.T) {
	folder := t.TempDir()
	empty := filepath.Join(folder, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	nats := []string{"--consumer", "c", "--url", "http://h/", "--nats-url", "nats://h:1", "--nats-stream", "S", "--nats-consumer", "c"}
	kafka := []string{"--consumer", "c", "--url", "http://h/", "--kafka-brokers", "h:1", "--kafka-topic", "t"}
	for want, arguments := range map[string][]string{
		"--consumer":                 nats[2:],
		"--url":                      append(nats[:2:2], nats[4:]...),
		"--url: must not have":       append(nats[:len(nats):len(nats)], "--url", "http://user:pass-word@h/"),
		"--nats-url":                 nats[:4],
		"--kafka-brokers: exactly":   nats[:4],
		"--nats-stream":              append(nats[:6:6], nats[8:]...),
		"--nats-consumer":            nats[:8],
		"--nats-url: each":           append(nats[:len(nats):len(nats)], "--nats-url", "h:1:pass-word"),
		"--kafka-topic":              kafka[:6],
		"--kafka-sasl":               append(kafka[:len(kafka):len(kafka)], "--kafka-user", "u"),
		"-timeout":                   append(kafka[:len(kafka):len(kafka)], "--timeout", "2h"),
		"-concurrency":               append(kafka[:len(kafka):len(kafka)], "--concurrency", "0"),
		"-unknown":                   append(kafka[:len(kafka):len(kafka)], "--unknown", "hope"),
		"-terminal":                  append(kafka[:len(kafka):len(kafka)], "--terminal", "200"),
		"--terminal: [408 409":       append(kafka[:len(kafka):len(kafka)], "--terminal", "409"),
		"-nonsense":                  append(kafka[:len(kafka):len(kafka)], "--nonsense", "1"),
		"not a flag":                 append(kafka[:len(kafka):len(kafka)], "nonsense"),
		"--url-token-file: the":      append(kafka[:len(kafka):len(kafka)], "--url-token-file", empty),
		"--url-token-file: " + empty: append(kafka[:len(kafka):len(kafka)], "--url", "https://h/", "--url-token-file", empty),
		"--url-ca-file":              append(kafka[:len(kafka):len(kafka)], "--url", "https://h/", "--url-ca-file", empty),
		"--url-cert-file":            append(kafka[:len(kafka):len(kafka)], "--url", "https://h/", "--url-cert-file", empty),
		"--ledger: ":                 append(kafka[:len(kafka):len(kafka)], "--ledger", "nowhere"),
		"--lease: ":                  append(kafka[:len(kafka):len(kafka)], "--lease", "1ms"),
		"--ledger-token-file":        append(kafka[:len(kafka):len(kafka)], "--ledger", "https://h:1", "--ledger-token-file", empty),
		"--ledger-cert-file":         append(kafka[:len(kafka):len(kafka)], "--ledger", "https://h:1", "--ledger-cert-file", empty),
		"--observe-listen":           append(kafka[:len(kafka):len(kafka)], "--observe-listen", "nowhere"),
	} {
		var out, log bytes.Buffer
		code := start(arguments, func(string) (string, bool) { return "", false }, &out, &log)
		if code != wrong || !strings.Contains(log.String(), want) || strings.Contains(log.String(), "pass-word") {
			t.Errorf("%s: %d, %s", want, code, log.String())
		}
	}
}

func TestFlagOverridesTheEnvironment(t *testing.T) {
	environment := map[string]string{"LEDGER_BRIDGE_GRACE": "7s", "LEDGER_BRIDGE_LOG": "json", "LEDGER_ENDPOINT": "h:1", "LEDGER_BRIDGE_TYPE": ""}
	lookup := func(name string) (string, bool) {
		value, found := environment[name]
		return value, found
	}
	s := &settings{}
	if err := s.read([]string{"--log", "text", "--kafka-tls"}, lookup); err != nil {
		t.Fatal(err)
	}
	if s.grace != 7*time.Second || s.log != "text" || s.ledger.Endpoint != "h:1" || !s.kafka.secured || s.plainType != "idempotency-ledger.bridge.message" {
		t.Errorf("%+v", s)
	}
	environment["LEDGER_BRIDGE_GRACE"] = "soon"
	if err := s.read(nil, lookup); err == nil || !strings.Contains(err.Error(), "LEDGER_BRIDGE_GRACE") {
		t.Errorf("the error is %v", err)
	}
}

// The manual and the page have the same settings.
func TestPageHasEachSetting(t *testing.T) {
	page, err := os.ReadFile("../../../docs/bridge.md")
	if err != nil {
		t.Skip("the page is not part of the module")
	}
	var out bytes.Buffer
	if code := start([]string{"--help"}, os.LookupEnv, &out, io.Discard); code != stopped {
		t.Errorf("--help ends with %d", code)
	}
	for _, o := range new(settings).options() {
		row := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta("`--"+o.name+"`") + ` \| ` + regexp.QuoteMeta(o.value) + ` ?\| ` + regexp.QuoteMeta(o.usage) + ` \|$`)
		if !row.Match(page) {
			t.Errorf("the page has no row\n| `--%s` | %s | %s |", o.name, o.value, o.usage)
		}
		if !strings.Contains(out.String(), o.environment()+"\n        "+o.usage) {
			t.Errorf("the manual does not have %s", o.name)
		}
	}
}
