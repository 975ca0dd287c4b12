package ledger

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"idempotency-ledger.internal/ledger/ledgerv1"
)

// sent is one try of a call.
type sent struct {
	method string
	raw    string
	at     time.Duration
	left   time.Duration
	waits  bool // for a connection
}

// fake is a server: it answers by its functions, and notes what was sent. Without a function a call is carried out.
type fake struct {
	ledgerv1.LedgerServiceClient
	began time.Time
	claim func(context.Context) (*ledgerv1.ClaimResponse, error)
	renew func(context.Context, *ledgerv1.RenewRequest) (*ledgerv1.RenewResponse, error)
	end   func(context.Context, proto.Message) (ledgerv1.Advice, error)
	store func(context.Context) (*ledgerv1.StoreResponse, error)
	next  func(context.Context, *ledgerv1.ClaimNextRequest) (*ledgerv1.ClaimNextResponse, error)

	mu   sync.Mutex
	sent []sent
}

// refusal is an error with the trailers of the ledger; without a reason it is that of a hop.
type refusal struct {
	code           codes.Code
	reason, advice string
	after          string
}

func (r *refusal) Error() string { return r.reason }

func (r *refusal) GRPCStatus() *status.Status { return status.New(r.code, "text") }

func (r *refusal) trailer() metadata.MD {
	found := metadata.MD{}
	for name, value := range map[string]string{"reason": r.reason, "advice": r.advice, "retry-after-ms": r.after} {
		if value != "" {
			found.Set("idempotency-ledger-"+name, value)
		}
	}
	return found
}

var errHop = &refusal{code: codes.Internal}

// note keeps a call, and gives its error the trailers.
func (f *fake) note(ctx context.Context, method string, request proto.Message, options []grpc.CallOption, call func() error) error {
	raw, _ := proto.Marshal(request)
	try := sent{method: method, raw: string(raw), at: time.Since(f.began), left: -1}
	if until, bounded := ctx.Deadline(); bounded {
		try.left = time.Until(until)
	}
	var trailer *metadata.MD
	for _, option := range options {
		switch known := option.(type) {
		case grpc.TrailerCallOption:
			trailer = known.TrailerAddr
		case grpc.FailFastCallOption:
			try.waits = !known.FailFast
		}
	}
	f.mu.Lock()
	f.sent = append(f.sent, try)
	f.mu.Unlock()
	err := call()
	if refused, ok := err.(*refusal); ok {
		*trailer = refused.trailer()
	}
	return err
}

// of are the tries of a method.
func (f *fake) of(method string) []sent {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(f.sent), func(try sent) bool { return try.method != method })
}

func (f *fake) Claim(ctx context.Context, request *ledgerv1.ClaimRequest, options ...grpc.CallOption) (answer *ledgerv1.ClaimResponse, err error) {
	err = f.note(ctx, "Claim", request, options, func() (err error) {
		answer, err = f.claim(ctx)
		return err
	})
	return answer, err
}

func (f *fake) Store(ctx context.Context, request *ledgerv1.StoreRequest, options ...grpc.CallOption) (answer *ledgerv1.StoreResponse, err error) {
	err = f.note(ctx, "Store", request, options, func() (err error) {
		answer, err = f.store(ctx)
		return err
	})
	return answer, err
}

func (f *fake) ClaimNext(ctx context.Context, request *ledgerv1.ClaimNextRequest, options ...grpc.CallOption) (answer *ledgerv1.ClaimNextResponse, err error) {
	err = f.note(ctx, "ClaimNext", request, options, func() (err error) {
		answer, err = f.next(ctx, request)
		return err
	})
	return answer, err
}

func (f *fake) Renew(ctx context.Context, request *ledgerv1.RenewRequest, options ...grpc.CallOption) (answer *ledgerv1.RenewResponse, err error) {
	err = f.note(ctx, "Renew", request, options, func() (err error) {
		if f.renew == nil {
			answer = &ledgerv1.RenewResponse{Lease: durationpb.New(30 * time.Second)}
			return nil
		}
		answer, err = f.renew(ctx, request)
		return err
	})
	return answer, err
}

func (f *fake) ended(ctx context.Context, request proto.Message, otherwise ledgerv1.Advice) (ledgerv1.Advice, error) {
	if f.end == nil {
		return otherwise, nil
	}
	return f.end(ctx, request)
}

func (f *fake) Complete(ctx context.Context, request *ledgerv1.CompleteRequest, options ...grpc.CallOption) (*ledgerv1.CompleteResponse, error) {
	answer := &ledgerv1.CompleteResponse{}
	err := f.note(ctx, "Complete", request, options, func() (err error) {
		answer.Advice, err = f.ended(ctx, request, ledgerv1.Advice_ADVICE_ACK)
		answer.ResultDropped = request.GetResultLeftOut()
		return err
	})
	return answer, err
}

func (f *fake) Fail(ctx context.Context, request *ledgerv1.FailRequest, options ...grpc.CallOption) (*ledgerv1.FailResponse, error) {
	answer := &ledgerv1.FailResponse{}
	err := f.note(ctx, "Fail", request, options, func() (err error) {
		otherwise := ledgerv1.Advice_ADVICE_DEAD_LETTER
		if request.GetKind() == ledgerv1.FailureKind_FAILURE_KIND_RETRYABLE {
			otherwise = ledgerv1.Advice_ADVICE_RETRY_LATER
		}
		answer.Advice, err = f.ended(ctx, request, otherwise)
		return err
	})
	return answer, err
}

func (f *fake) Release(ctx context.Context, request *ledgerv1.ReleaseRequest, options ...grpc.CallOption) (*ledgerv1.ReleaseResponse, error) {
	answer := &ledgerv1.ReleaseResponse{}
	err := f.note(ctx, "Release", request, options, func() (err error) {
		answer.Advice, err = f.ended(ctx, request, ledgerv1.Advice_ADVICE_RETRY_LATER)
		return err
	})
	return answer, err
}

// granted is a grant of 30 s, changed by the function.
func granted(change func(*ledgerv1.Acquired)) func(context.Context) (*ledgerv1.ClaimResponse, error) {
	return func(context.Context) (*ledgerv1.ClaimResponse, error) {
		acquired := &ledgerv1.Acquired{
			Token: 7, Attempt: 1, Lease: durationpb.New(30 * time.Second), Hold: durationpb.New(24 * time.Hour),
			IdempotencyKey: "key", OnExpiry: ledgerv1.OnExpiry_ON_EXPIRY_PARK_IF_STARTED,
		}
		if change != nil {
			change(acquired)
		}
		return &ledgerv1.ClaimResponse{Advice: ledgerv1.Advice_ADVICE_PROCESS, Verdict: &ledgerv1.ClaimResponse_Acquired{Acquired: acquired}}, nil
	}
}

// client is one over the fake, whose clock begins now: call it within the bubble of a test.
func (f *fake) client(t *testing.T, options Options) *Ledger {
	t.Helper()
	f.began = time.Now()
	if f.claim == nil {
		f.claim = granted(nil)
	}
	if options.Logger == nil {
		options.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	checked, err := options.checked("tests")
	if err != nil {
		t.Fatal(err)
	}
	return newLedger("tests", checked, f)
}

var message = Key{Source: "shop", ID: "1"}

// returning is a handler that ends in this way.
func returning(result string, err error) func(context.Context, *Claim) (string, error) {
	return func(context.Context, *Claim) (string, error) { return result, err }
}
