package ledger

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/timestamppb"
	"idempotency-ledger.internal/ledger/ledgerv1"
)

const (
	shortestLease = time.Second
	longestLease  = 24 * time.Hour
	longestWait   = time.Hour
	digestMax     = 64
)

// Options are those of a [Ledger]. The zero value is right for a server at LEDGER_ENDPOINT.
type Options struct {
	// Endpoint is HOST:PORT, http://HOST:PORT, https://HOST:PORT, or a gRPC target such as dns:///HOST:PORT, also of
	// several servers (ipv4:A:PORT,B:PORT). Empty: the variable LEDGER_ENDPOINT, else 127.0.0.1:50051.
	Endpoint string
	// TokenFile has a bearer token, which is sent by TLS alone; it is read again when it changes. Empty: the variable
	// LEDGER_TOKEN_FILE, else no token is sent.
	TokenFile string
	// CAFile is a PEM file with the authorities of the servers' certificates; it asks for TLS. Empty: the variable
	// LEDGER_CA_FILE, else those of the system.
	CAFile string
	// ClientCertFile and ClientKeyFile are PEM files with the client's certificate, and those between it and its
	// authority's, and its private key. They are read again for each new connection.
	ClientCertFile, ClientKeyFile string

	// Lease is how long a claim is held unless it is renewed: 1 s to 24 h. It is renewed at a third of that. 0: the
	// policy's, 30 s by default.
	Lease time.Duration
	// Owner names the claimant for people who read the ledger: 1 to 128 bytes. Empty: host and process.
	Owner string
	// Unexpected is what an error of a handler means that does not say how its attempt ended: [ErrPark] (nil: the same,
	// a person looks), [ErrRetry] (only where no error of the handler can follow its effect), or [ErrDoubtful] (only with
	// a guard or a fence).
	Unexpected error
	// RepeatAnnounced: process also where an earlier attempt had announced its effect. By default it is parked.
	RepeatAnnounced bool
	// HandlerBudget and AckWait are the longest time that a handler takes, and that the broker waits for an
	// acknowledgement. They are compared, New warns where the budget is longer, and nothing else depends on them.
	HandlerBudget, AckWait time.Duration
	// Logger gets what was refused or not answered, and the types of handlers' errors, at most once a second of each
	// kind; never a payload, a key, a token or the text of a handler's error. nil: slog.Default().
	Logger *slog.Logger
}

// checked returns the options with what the environment adds.
func (o Options) checked(consumer string) (Options, error) {
	if fault := textFault("key.consumer", consumer, consumerMax); fault != nil {
		return o, fault
	}
	if o.Owner == "" {
		host, _ := os.Hostname()
		o.Owner = fmt.Sprintf("%.100s/%d", strings.ToValidUTF8(host, "?"), os.Getpid())
	}
	if fault := textFault("owner", o.Owner, ownerMax); fault != nil {
		return o, fault
	}
	if o.Lease != 0 && (o.Lease < shortestLease || o.Lease > longestLease) {
		return o, &InvalidFieldError{"lease", fmt.Sprintf("%v is not within 1 s and 24 h; the policy may bound it further", o.Lease)}
	}
	if o.Unexpected == nil {
		o.Unexpected = ErrPark
	}
	if o.Unexpected != ErrPark && o.Unexpected != ErrRetry && o.Unexpected != ErrDoubtful {
		return o, &InvalidFieldError{"unexpected", "must be ErrPark, ErrRetry or ErrDoubtful"}
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	o.Endpoint = or(o.Endpoint, or(os.Getenv("LEDGER_ENDPOINT"), "127.0.0.1:50051"))
	o.TokenFile = or(o.TokenFile, os.Getenv("LEDGER_TOKEN_FILE"))
	o.CAFile = or(o.CAFile, os.Getenv("LEDGER_CA_FILE"))
	return o, nil
}

// A DeliveryOption is an option of one delivery: [Body], [Fingerprint], [OccurredAt], [EventType] or [Wait].
type DeliveryOption func(*delivery)

// delivery is one delivery of a message, as the caller names it.
type delivery struct {
	body, fingerprint []byte
	hasBody, hasPrint bool
	occurredAt        time.Time
	eventType         string
	wait              time.Duration
}

// Body is the broker's raw body, before any decoding: the Claim has its SHA-256, by which another body under the same key is
// found out. An object that was decoded and serialised again has other bytes in another version or language.
func Body(raw []byte) DeliveryOption {
	return func(d *delivery) { d.body, d.hasBody = raw, true }
}

// Fingerprint is a digest of the raw body that was made already: 1 to 64 bytes, instead of [Body].
func Fingerprint(digest []byte) DeliveryOption {
	return func(d *delivery) { d.fingerprint, d.hasPrint = digest, true }
}

// OccurredAt is when the producer made the message: one that is older than what the ledger remembers is dead-lettered.
func OccurredAt(instant time.Time) DeliveryOption {
	return func(d *delivery) { d.occurredAt = instant }
}

// EventType is a label of the server's metrics, such as the type of a CloudEvent: use few different ones.
func EventType(name string) DeliveryOption {
	return func(d *delivery) { d.eventType = name }
}

// Wait is how long a call waits while another attempt holds the message: 0 (the default) to 1 h; the server bounds it
// further, by default to 10 s. It is for callers that need the result; a broker's consumer does not need it.
func Wait(atMost time.Duration) DeliveryOption {
	return func(d *delivery) { d.wait = atMost }
}

// request is the Claim of a delivery: with a new claim_id, so that it is never taken for another delivery (rule 1).
func (l *Ledger) request(key Key, options []DeliveryOption) (*ledgerv1.ClaimRequest, error) {
	var d delivery
	for _, option := range options {
		option(&d)
	}
	request := &ledgerv1.ClaimRequest{
		Key:       &ledgerv1.EntryKey{Consumer: l.consumer, Source: key.Source, Id: key.ID, ReplayRun: key.ReplayRun},
		ClaimId:   uuid.NewString(),
		Owner:     l.options.Owner,
		EventType: strings.ToValidUTF8(d.eventType, "?"),
	}
	if l.options.Lease != 0 {
		request.Lease = span(l.options.Lease)
	}
	var err error
	if request.Fingerprint, err = d.digest(); err != nil {
		return nil, err
	}
	if d.wait < 0 || d.wait > longestWait {
		return nil, &InvalidFieldError{"wait", fmt.Sprintf("%v is not within 0 s and 1 h; the server bounds it further", d.wait)}
	}
	if d.wait > 0 {
		request.Wait = span(d.wait)
	}
	if request.OccurredAt, err = d.occurred(); err != nil {
		return nil, err
	}
	return request, key.replayRunFault()
}

// occurred is when the message was made; nil where it is not known.
func (d *delivery) occurred() (*timestamppb.Timestamp, error) {
	if d.occurredAt.IsZero() {
		return nil, nil
	}
	instant := timestamppb.New(d.occurredAt)
	if err := instant.CheckValid(); err != nil {
		return nil, &InvalidFieldError{"occurred_at", "is not within the years 1 and 9999"}
	}
	return instant, nil
}

func (d *delivery) digest() ([]byte, error) {
	switch {
	case d.hasBody && d.hasPrint:
		return nil, &InvalidFieldError{"fingerprint", "give the raw body or its fingerprint, not both"}
	case d.hasBody:
		sum := sha256.Sum256(d.body)
		return sum[:], nil
	case d.hasPrint:
		if len(d.fingerprint) < 1 || len(d.fingerprint) > digestMax {
			return nil, &InvalidFieldError{"fingerprint", fmt.Sprintf("has %d bytes; 1 to %d are allowed", len(d.fingerprint), digestMax)}
		}
		return d.fingerprint, nil
	}
	return nil, nil
}

// unexpectedKind is what an error of a handler means that does not steer.
func (o Options) unexpectedKind() kind {
	var steer *SteerError
	errors.As(o.Unexpected, &steer)
	return steer.kind
}
