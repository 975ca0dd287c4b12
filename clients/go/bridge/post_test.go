package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"idempotency-ledger.internal/ledger"
)

var structured = message{headers: map[string]string{"content-type": "application/cloudevents+json"}, body: []byte(`{"id": "1"}`)}

// posting is how a message is settled that is POSTed to the handler, and its outcome.
func posting(t *testing.T, f *fake, answer http.HandlerFunc, arguments ...string) (string, ledger.Outcome[[]byte]) {
	t.Helper()
	outcome := bridged(t, f, handler(t, answer), arguments...).process(t, structured)
	return f.only(t), outcome
}

func answering(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for at := 0; at < len(headers); at += 2 {
			w.Header().Set(headers[at], headers[at+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func TestStatusSettlesTheClaim(t *testing.T) {
	for what, test := range map[string]struct {
		answer    http.HandlerFunc
		arguments []string
		settled   string
		advice    ledger.Advice
	}{
		"success":                 {answering(201, "done"), nil, `complete ""`, ledger.Ack},
		"success with its result": {answering(200, "done"), []string{"--result", "body"}, `complete "done"`, ledger.Ack},
		"a result of the bound":   {answering(200, "1234"), []string{"--result", "body", "--answer-max", "4"}, `complete "1234"`, ledger.Ack},
		"a result beyond it":      {answering(200, "12345"), []string{"--result", "body", "--answer-max", "4"}, `complete ""`, ledger.Ack},
		"busy":                    {answering(429, "", "Retry-After", "7"), nil, "FAILURE_KIND_RETRYABLE after 7s: HTTP 429", ledger.RetryLater},
		"in conflict":             {answering(409, ""), nil, "FAILURE_KIND_RETRYABLE after policy: HTTP 409", ledger.RetryLater},
		"away":                    {answering(503, "", "Retry-After", "1"), nil, "FAILURE_KIND_RETRYABLE after 1s: HTTP 503", ledger.RetryLater},
		"away, by a proxy":        {answering(503, ""), nil, "FAILURE_KIND_PARK after policy: HTTP 503", ledger.DeadLetter},
		"invalid":                 {answering(422, "a secret"), nil, "FAILURE_KIND_TERMINAL after policy: HTTP 422", ledger.DeadLetter},
		"not found":               {answering(404, ""), nil, "release after 5s", ledger.RetryLater},
		"moved":                   {answering(308, "", "Location", "/other"), nil, "release after 5s", ledger.RetryLater},
		"failed":                  {answering(500, "a secret"), nil, "FAILURE_KIND_PARK after policy: HTTP 500", ledger.DeadLetter},
		"failed, in doubt":        {answering(500, ""), []string{"--unknown", "doubtful"}, "", ledger.RetryLater},
		"failed, behind a fence":  {answering(500, ""), []string{"--unknown", "retry"}, "FAILURE_KIND_RETRYABLE after policy: HTTP 500", ledger.RetryLater},
	} {
		t.Run(what, func(t *testing.T) {
			if settled, outcome := posting(t, &fake{}, test.answer, test.arguments...); settled != test.settled || outcome.Advice != test.advice {
				t.Errorf("settled by %q, advice %v; want %q, %v", settled, outcome.Advice, test.settled, test.advice)
			}
		})
	}
}

func TestRedirectIsNotFollowed(t *testing.T) {
	var requests atomic.Int32
	posting(t, &fake{}, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		http.Redirect(w, r, "/again", http.StatusTemporaryRedirect)
	})
	if requests.Load() != 1 {
		t.Errorf("%d requests", requests.Load())
	}
}

func TestRefusedConnectionReleases(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	f := &fake{}
	outcome := bridged(t, f, "http://"+listener.Addr().String(), "--release-delay", "2s").process(t, structured)
	if settled := f.only(t); settled != "release after 2s" || !strings.Contains(outcome.Err.Error(), "connection refused") {
		t.Errorf("settled by %q, %v", settled, outcome.Err)
	}
}

func TestTLSThatIsNotVerifiedReleases(t *testing.T) {
	url := handler(t, answering(200, "")) // It speaks no TLS.
	f := &fake{}
	bridged(t, f, strings.Replace(url, "http:", "https:", 1)).process(t, structured)
	if settled := f.only(t); settled != "release after 5s" {
		t.Errorf("settled by %q", settled)
	}
}

func TestCertificatesAreVerifiedOnBothSides(t *testing.T) {
	server := httptest.NewUnstartedServer(answering(200, ""))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	server.StartTLS()
	t.Cleanup(server.Close)
	folder := t.TempDir()
	file := func(name, kind string, content []byte) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ca := file("ca.pem", "CERTIFICATE", server.Certificate().Raw)
	private, err := x509.MarshalPKCS8PrivateKey(server.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	key := file("key.pem", "PRIVATE KEY", private)
	for what, test := range map[string]struct {
		arguments []string
		settled   string
	}{
		"both":                    {[]string{"--url-ca-file", ca, "--url-cert-file", ca, "--url-key-file", key}, `complete ""`},
		"no certificate":          {[]string{"--url-ca-file", ca}, "release after 5s"},
		"an authority of another": {[]string{"--url-cert-file", ca, "--url-key-file", key}, "release after 5s"},
	} {
		f := &fake{}
		outcome := bridged(t, f, server.URL, test.arguments...).process(t, structured)
		if settled := f.only(t); settled != test.settled {
			t.Errorf("%s: settled by %q, %v", what, settled, outcome.Err)
		}
	}
}

func TestTimeoutIsUnknown(t *testing.T) {
	settled, outcome := posting(t, &fake{}, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}, "--timeout", "2s")
	if settled != "FAILURE_KIND_PARK after policy: no whole answer: the timeout is over" || outcome.Advice != ledger.DeadLetter {
		t.Errorf("settled by %q, %v", settled, outcome.Advice)
	}
}

// The connection is one that was used before: by itself net/http would send a request with an Idempotency-Key again.
func TestCutConnectionIsUnknownAndNotPostedAgain(t *testing.T) {
	for what, body := range map[string]string{"a body": "{}", "no body": ""} {
		t.Run(what, func(t *testing.T) {
			var requests atomic.Int32
			f := &fake{}
			b := bridged(t, f, handler(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				if requests.Add(1) == 2 {
					panic(http.ErrAbortHandler)
				}
			}), "--keep-alive", "10s")
			for range 2 {
				b.process(t, message{body: []byte(body)})
			}
			if len(f.settled) != 2 || f.settled[0] != `complete ""` ||
				f.settled[1] != "FAILURE_KIND_PARK after policy: no whole answer: the handler has closed the connection" || requests.Load() != 2 {
				t.Errorf("settled by %q after %d requests", f.settled, requests.Load())
			}
		})
	}
}

func TestAnswerIsReadToItsBound(t *testing.T) {
	ended := make(chan struct{})
	settled, _ := posting(t, &fake{}, func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		part := make([]byte, 1<<16)
		for {
			if _, err := w.Write(part); err != nil {
				return
			}
		}
	}, "--answer-max", "1000")
	if settled != `complete ""` {
		t.Errorf("settled by %q", settled)
	}
	<-ended // The connection was closed.
}

func TestAnswerThatIsCutIsUnknown(t *testing.T) {
	settled, _ := posting(t, &fake{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "done")
	})
	if !strings.HasPrefix(settled, "FAILURE_KIND_PARK") {
		t.Errorf("settled by %q", settled)
	}
}

func TestLostClaimCancelsThePost(t *testing.T) {
	cancelled := make(chan struct{})
	f := &fake{lease: 3 * time.Second, isLost: true}
	settled, outcome := posting(t, f, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
		close(cancelled)
	})
	<-cancelled
	if settled != "" || outcome.Reason != "LEASE_LOST" || outcome.Advice != ledger.RetryLater || !outcome.EffectUnknown {
		t.Errorf("settled by %q, %+v", settled, outcome)
	}
}

func TestLeaseIsRenewedWhileThePostRuns(t *testing.T) {
	settled, _ := posting(t, &fake{lease: 3 * time.Second}, func(http.ResponseWriter, *http.Request) { time.Sleep(4 * time.Second) })
	if settled != `complete ""` {
		t.Errorf("settled by %q", settled)
	}
}
