package ledger

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/health" // Without it the service config's health checks are left out.
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
)

// serviceConfig is what spreads the calls of deploy/clients/service-config.json. Its retries are left out, since this
// package repeats what gRPC does not; and so is its timeout, which would end a Claim that waits.
const serviceConfig = `{"loadBalancingConfig": [{"round_robin": {}}], "healthCheckConfig": {"serviceName": "accepting"}}`

// target is where the servers are, as gRPC takes it.
type target struct {
	name string
	tls  bool
	// list has the addresses of several servers; empty where the name stands for all of them.
	list []string
}

// dial makes the connection; nothing is sent before the first call.
func (o Options) dial() (*grpc.ClientConn, error) {
	to, err := o.target()
	if err != nil {
		return nil, err
	}
	secured, err := o.credentials(to)
	if err != nil {
		return nil, err
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(secured),
		grpc.WithDefaultServiceConfig(serviceConfig),
		// Service configs of DNS TXT records are ignored, and no call waits for such a record.
		grpc.WithDisableServiceConfig(),
		// A server that was replaced is found again within the budget of a call; the defaults are 1 s to 120 s.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
			MinConnectTimeout: 2 * time.Second,
		}),
		// A connection that is gone without a sign is noticed after 25 s rather than by TCP after a quarter of an hour.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 5 * time.Second}),
	}
	if o.TokenFile != "" {
		options = append(options, grpc.WithPerRPCCredentials(&tokenFile{path: o.TokenFile}))
	}
	if len(to.list) > 0 {
		servers := manual.NewBuilderWithScheme("list")
		servers.InitialState(listed(to.list))
		options = append(options, grpc.WithResolvers(servers))
	}
	return grpc.NewClient(to.name, options...)
}

func listed(addresses []string) resolver.State {
	var state resolver.State
	for _, address := range addresses {
		state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: address}}})
	}
	return state
}

// target is the endpoint as gRPC takes it; an error where the options contradict each other.
func (o Options) target() (target, error) {
	to := target{name: o.Endpoint, tls: o.CAFile != ""}
	if rest, found := strings.CutPrefix(o.Endpoint, "https://"); found {
		to = target{name: strings.TrimRight(rest, "/"), tls: true}
	} else if rest, found := strings.CutPrefix(o.Endpoint, "http://"); found {
		if to.tls {
			return to, &InvalidFieldError{"endpoint", o.Endpoint + " is reached without TLS, but a CA file is given"}
		}
		to.name = strings.TrimRight(rest, "/")
	}
	if err := to.resolve(); err != nil {
		return to, err
	}
	switch {
	case to.tls && len(to.list) > 0:
		return to, &InvalidFieldError{"endpoint", "no certificate is for the list " + o.Endpoint + "; use https://NAME:PORT of all servers"}
	case o.TokenFile != "" && !to.tls:
		return to, &InvalidFieldError{"token_file", "the token would be sent in the clear to " + o.Endpoint + "; use https://"}
	case (o.ClientCertFile == "") != (o.ClientKeyFile == ""):
		return to, &InvalidFieldError{"client_cert_file", "a certificate and its key are given together"}
	case o.ClientCertFile != "" && !to.tls:
		return to, &InvalidFieldError{"client_cert_file", o.Endpoint + " is reached without TLS; use https://"}
	}
	return to, nil
}

// resolve makes a bare HOST:PORT a target that finds every server behind the name, and splits a list.
func (t *target) resolve() error {
	for _, scheme := range []string{"ipv4:", "ipv6:"} {
		if addresses, found := strings.CutPrefix(t.name, scheme); found {
			// The list itself would be sent as the server's name, and no call would get through.
			t.list, t.name = strings.Split(addresses, ","), "list:///ledger"
			for _, address := range t.list {
				if _, err := netip.ParseAddrPort(address); err != nil {
					return &InvalidFieldError{"endpoint", fmt.Sprintf("%q of the list is not ADDRESS:PORT", address)}
				}
			}
			return nil
		}
	}
	if strings.Contains(t.name, "/") || strings.HasPrefix(t.name, "unix:") || strings.HasPrefix(t.name, "dns:") {
		return nil
	}
	colon := strings.LastIndex(t.name, ":")
	if colon > 0 {
		if _, err := strconv.ParseUint(t.name[colon+1:], 10, 16); err == nil {
			t.name = "dns:///" + t.name
			return nil
		}
	}
	return &InvalidFieldError{"endpoint", fmt.Sprintf("%q is not HOST:PORT, http(s)://HOST:PORT or a gRPC target", t.name)}
}

func (o Options) credentials(to target) (credentials.TransportCredentials, error) {
	if !to.tls {
		return insecure.NewCredentials(), nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CAFile != "" {
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("ledger: ca_file: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, &InvalidFieldError{"ca_file", o.CAFile + " has no certificate in PEM"}
		}
	}
	if o.ClientCertFile != "" {
		read := func() (*tls.Certificate, error) {
			found, err := tls.LoadX509KeyPair(o.ClientCertFile, o.ClientKeyFile)
			return &found, err
		}
		if _, err := read(); err != nil {
			return nil, fmt.Errorf("ledger: client_cert_file: %w", err)
		}
		// With each new connection: certificates of a short life are replaced meanwhile.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return read() }
	}
	return credentials.NewTLS(config), nil
}

// tokenFile is the bearer token of a file, which is read again when the file changes.
type tokenFile struct {
	path  string
	mu    sync.Mutex
	seen  os.FileInfo
	token string
}

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (t *tokenFile) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	found, err := os.Stat(t.path)
	if err != nil {
		return nil, err
	}
	if t.changed(found) {
		text, err := os.ReadFile(t.path)
		if err != nil {
			return nil, err
		}
		t.seen, t.token = found, strings.TrimSpace(string(text))
	}
	return map[string]string{"authorization": "Bearer " + t.token}, nil
}

func (t *tokenFile) changed(found os.FileInfo) bool {
	return t.seen == nil || !os.SameFile(t.seen, found) || t.seen.Size() != found.Size() || !t.seen.ModTime().Equal(found.ModTime())
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (t *tokenFile) RequireTransportSecurity() bool { return true }

var _ credentials.PerRPCCredentials = (*tokenFile)(nil)
