package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"idempotency-ledger.internal/ledger"
	"idempotency-ledger.internal/ledger/ledgerv1"
)

// fake is a ledger that grants each Claim, and notes how it is settled. With isLost it refuses to renew.
type fake struct {
	ledgerv1.UnimplementedLedgerServiceServer
	lease  time.Duration
	isLost bool

	mu      sync.Mutex
	settled []string
}

func (f *fake) note(format string, values ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.settled = append(f.settled, fmt.Sprintf(format, values...))
}

func (f *fake) Claim(context.Context, *ledgerv1.ClaimRequest) (*ledgerv1.ClaimResponse, error) {
	left := int32(4)
	acquired := &ledgerv1.Acquired{
		Token: 42, Attempt: 2, Lease: durationpb.New(f.lease), Hold: durationpb.New(time.Hour), IdempotencyKey: "key-of-1",
		AttemptsLeft: &left, EffectUnknown: true,
	}
	return &ledgerv1.ClaimResponse{Advice: ledgerv1.Advice_ADVICE_PROCESS, Verdict: &ledgerv1.ClaimResponse_Acquired{Acquired: acquired}}, nil
}

func (f *fake) Renew(ctx context.Context, _ *ledgerv1.RenewRequest) (*ledgerv1.RenewResponse, error) {
	if f.isLost {
		_ = grpc.SetTrailer(ctx, metadata.Pairs("idempotency-ledger-reason", "LEASE_LOST", "idempotency-ledger-advice", "RETRY_LATER"))
		return nil, status.Error(codes.Aborted, "another attempt has the claim")
	}
	return &ledgerv1.RenewResponse{Lease: durationpb.New(f.lease), Hold: durationpb.New(time.Hour)}, nil
}

func (f *fake) Complete(_ context.Context, request *ledgerv1.CompleteRequest) (*ledgerv1.CompleteResponse, error) {
	f.note("complete %q", request.GetResult())
	return &ledgerv1.CompleteResponse{Advice: ledgerv1.Advice_ADVICE_ACK}, nil
}

func (f *fake) Fail(_ context.Context, request *ledgerv1.FailRequest) (*ledgerv1.FailResponse, error) {
	after := "policy"
	if request.RetryAfter != nil {
		after = request.RetryAfter.AsDuration().String()
	}
	advice := ledgerv1.Advice_ADVICE_DEAD_LETTER
	if request.GetKind() == ledgerv1.FailureKind_FAILURE_KIND_RETRYABLE {
		advice = ledgerv1.Advice_ADVICE_RETRY_LATER
	}
	f.note("%v after %s: %s", request.GetKind(), after, request.GetError())
	return &ledgerv1.FailResponse{Advice: advice}, nil
}

func (f *fake) Release(_ context.Context, request *ledgerv1.ReleaseRequest) (*ledgerv1.ReleaseResponse, error) {
	f.note("release after %v", request.GetDelay().AsDuration())
	return &ledgerv1.ReleaseResponse{Advice: ledgerv1.Advice_ADVICE_RETRY_LATER}, nil
}

// only is the one settlement that was sent; "" without one.
func (f *fake) only(t *testing.T) string {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.settled) > 1 {
		t.Errorf("settled more than once: %q", f.settled)
	}
	if len(f.settled) == 0 {
		return ""
	}
	return f.settled[0]
}

// bridged is a bridge between a fake ledger and a URL.
func bridged(t *testing.T, f *fake, url string, arguments ...string) *bridge {
	t.Helper()
	if f.lease == 0 {
		f.lease = 30 * time.Second
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	ledgerv1.RegisterLedgerServiceServer(server, f)
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	s := &settings{}
	arguments = append([]string{
		"--consumer", "payments", "--url", url, "--kafka-brokers", "127.0.0.1:1", "--kafka-topic", "t",
		"--ledger", listener.Addr().String(), "--observe-listen", "off",
	}, arguments...)
	if err := s.read(arguments, func(string) (string, bool) { return "", false }); err != nil {
		t.Fatal(err)
	}
	if err := s.check(); err != nil {
		t.Fatal(err)
	}
	b, err := newBridge(s, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// process processes a message as the adapters do.
func (b *bridge) process(t *testing.T, m message) ledger.Outcome[[]byte] {
	t.Helper()
	outcome, err := ledger.Process(t.Context(), b.client, ledger.Key{Source: "shop", ID: "1"},
		func(ctx context.Context, claim *ledger.Claim) ([]byte, error) { return b.poster.post(ctx, claim, m) }, ledger.Body(m.body))
	if err != nil {
		t.Fatal(err)
	}
	return outcome
}

// handler is an HTTP server that answers by the function, and its URL.
func handler(t *testing.T, answer http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	return server.URL
}
