package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"idempotency-ledger.internal/ledger"
	"idempotency-ledger.internal/ledger/internal/limit"
)

const answerHeadersMax = 64 << 10

var errTimeout = errors.New("the timeout is over")

// poster POSTs messages to the handler.
type poster struct {
	settings  *settings
	transport http.RoundTripper
	metrics   *metrics
	logger    *slog.Logger
	lines     limit.Lines
}

// newPoster makes a poster whose connections are HTTP/1.1, without a proxy.
func newPoster(s *settings, m *metrics, logger *slog.Logger) (*poster, error) {
	secured, err := s.tls.config()
	if err != nil {
		return nil, err
	}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &poster{settings: s, metrics: m, logger: logger, transport: &http.Transport{
		DialContext:            (&net.Dialer{Timeout: s.connectTimeout}).DialContext,
		TLSClientConfig:        secured,
		TLSHandshakeTimeout:    s.connectTimeout,
		DisableKeepAlives:      s.keepAlive == 0,
		IdleConnTimeout:        s.keepAlive,
		MaxIdleConnsPerHost:    s.concurrency,
		MaxResponseHeaderBytes: answerHeadersMax,
		DisableCompression:     true, // What is read stays bounded by what is sent.
		Protocols:              &protocols,
	}}, nil
}

// post is the handler of the adapters: it POSTs a message, and returns by its error how the claim is settled.
func (p *poster) post(ctx context.Context, claim *ledger.Claim, m message) ([]byte, error) {
	p.metrics.inFlight.Add(1)
	defer p.metrics.inFlight.Add(-1)
	began := time.Now()
	a := p.send(ctx, m.request(claim, p.settings.plainType), m.body)
	settled, err := p.settings.judge(a)
	if a.fault != "" && ctx.Err() != nil {
		settled, err = lost, context.Cause(ctx)
	}
	p.metrics.posted(a.status, settled, time.Since(began))
	p.report(settled, a)
	if err != nil || p.settings.result == "none" || a.tooLarge {
		return nil, err
	}
	return a.body, nil
}

// send sends the request once, and reads the answer. It follows no redirect.
func (p *poster) send(ctx context.Context, headers http.Header, body []byte) (a answer) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.settings.timeout, errTimeout)
	defer cancel()
	var sent atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }})
	request, err := http.NewRequestWithContext(traced, http.MethodPost, p.settings.url, nil)
	if err != nil {
		return answer{fault: "the URL is malformed"}
	}
	request.Header = headers
	// A body that cannot be read twice: else the transport repeats a request that has an Idempotency-Key, without another
	// attempt, while the handler may still be at the first one.
	request.Body, request.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	if p.settings.urlToken != "" {
		bearer, err := token(p.settings.urlToken)
		if err != nil {
			return answer{fault: "--url-token-file: " + err.Error()}
		}
		headers.Set("Authorization", "Bearer "+bearer)
	}
	response, err := p.transport.RoundTrip(request)
	if err != nil {
		return answer{sent: sent.Load() && !refused(err), fault: described(ctx, err)}
	}
	defer response.Body.Close()
	a = answer{
		sent: true, status: response.StatusCode, retryAfter: response.Header.Get("Retry-After"), date: response.Header.Get("Date"),
	}
	a.body, err = io.ReadAll(io.LimitReader(response.Body, int64(p.settings.answerMax)+1))
	a.tooLarge = len(a.body) > p.settings.answerMax
	if err != nil {
		a.fault = described(ctx, err)
	}
	return a
}

// refused reports whether the handler's TLS has refused the bridge's certificate. In TLS 1.3 it does so after the request was
// sent, which it has not read then.
func refused(err error) bool {
	var operation *net.OpError
	if !errors.As(err, &operation) || operation.Op != "remote error" {
		return false
	}
	alert := operation.Err.Error()
	return strings.Contains(alert, "certificate") || strings.Contains(alert, "access denied")
}

// described is what has failed, without anything that the handler has sent: texts of net/http may quote it.
func described(ctx context.Context, err error) string {
	var operation *net.OpError
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	switch {
	case errors.Is(context.Cause(ctx), errTimeout):
		return errTimeout.Error()
	case ctx.Err() != nil:
		return "the claim is lost"
	case errors.As(err, &certificate):
		return certificate.Error()
	case errors.As(err, &record):
		return "the handler does not speak TLS"
	case errors.As(err, &operation):
		return operation.Error()
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return "the handler has closed the connection"
	}
	return fmt.Sprintf("%T", err)
}

// report logs what an operator must see to, at most a line a second of each kind.
func (p *poster) report(settled string, a answer) {
	level, text := slog.LevelWarn, "it is unknown whether the handler had its effect"
	switch settled {
	case release:
		level, text = slog.LevelError, "the handler was not reached, or its answer says that a setting is wrong; the message comes again"
	case unknown:
	default:
		return
	}
	status := "none"
	if a.status > 0 {
		status = strconv.Itoa(a.status)
	}
	if suppressed, due := p.lines.Due(text); due {
		p.logger.Log(context.Background(), level, text, "status", status, "fault", a.fault, "suppressed", suppressed)
	}
}
