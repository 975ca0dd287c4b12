package ledger

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"idempotency-ledger.internal/ledger/ledgerv1"
)

// server answers every Claim that the message is done.
type server struct {
	ledgerv1.UnimplementedLedgerServiceServer
	address string
	health  *health.Server
	claims  atomic.Int64
	sent    atomic.Pointer[metadata.MD]
}

func (s *server) Claim(ctx context.Context, _ *ledgerv1.ClaimRequest) (*ledgerv1.ClaimResponse, error) {
	s.claims.Add(1)
	sent, _ := metadata.FromIncomingContext(ctx)
	s.sent.Store(&sent)
	done := &ledgerv1.ClaimResponse_Completed{Completed: &ledgerv1.Completed{Attempt: 1}}
	return &ledgerv1.ClaimResponse{Advice: ledgerv1.Advice_ADVICE_ACK, Verdict: done}, nil
}

// served starts a server that accepts calls, or does not.
func served(t *testing.T, accepting grpc_health_v1.HealthCheckResponse_ServingStatus) *server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{address: listener.Addr().String(), health: health.NewServer()}
	s.health.SetServingStatus("accepting", accepting)
	over := grpc.NewServer()
	ledgerv1.RegisterLedgerServiceServer(over, s)
	grpc_health_v1.RegisterHealthServer(over, s.health)
	go func() { _ = over.Serve(listener) }()
	t.Cleanup(over.Stop)
	return s
}

func TestServersThatAcceptCallsGetThemInTurn(t *testing.T) {
	servers := []*server{
		served(t, grpc_health_v1.HealthCheckResponse_SERVING),
		served(t, grpc_health_v1.HealthCheckResponse_NOT_SERVING),
		served(t, grpc_health_v1.HealthCheckResponse_SERVING),
	}
	var addresses []string
	for _, each := range servers {
		addresses = append(addresses, each.address)
	}
	l, err := New("tests", Options{Endpoint: "ipv4:" + strings.Join(addresses, ",")})
	if err != nil {
		t.Fatal(err)
	}
	process := func() {
		if outcome, err := Process(t.Context(), l, message, returning("", nil)); err != nil || outcome.Advice != Ack {
			t.Fatal(outcome, err)
		}
	}
	reached := func(all ...*server) bool {
		return !slices.ContainsFunc(all, func(each *server) bool { return each.claims.Load() == 0 })
	}
	for !reached(servers[0], servers[2]) { // Until both are connected.
		process()
	}
	if servers[1].claims.Load() > 0 {
		t.Error("a server that does not accept calls got one")
	}
	servers[1].health.SetServingStatus("accepting", grpc_health_v1.HealthCheckResponse_SERVING)
	for !reached(servers[1]) {
		process()
	}
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestMetadataOfTheCallerIsNotSent(t *testing.T) {
	s := served(t, grpc_health_v1.HealthCheckResponse_SERVING)
	l, err := New("tests", Options{Endpoint: s.address})
	if err != nil {
		t.Fatal(err)
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "of another service")
	if _, err := Process(ctx, l, message, returning("", nil)); err != nil {
		t.Fatal(err)
	}
	if sent := *s.sent.Load(); len(sent.Get("authorization")) > 0 {
		t.Errorf("it was sent: %v", sent)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
