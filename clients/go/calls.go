package ledger

import (
	"context"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	callTimeout  = 5 * time.Second  // of one try; a Claim: its wait more
	claimBudget  = 10 * time.Second // of a Claim and its repeats; its wait more
	settleBudget = 20 * time.Second // of a settlement and its repeats
	firstPause   = 50 * time.Millisecond
	longestPause = time.Second
	shortestTry  = 50 * time.Millisecond
	detailMax    = 500 // bytes of an error's text
)

// failure is a call that was refused, or whose outcome is unknown after all repeats.
type failure struct {
	code codes.Code
	// reason and advice are empty where the ledger did not make the error.
	reason, advice string
	retryAfter     time.Duration
	named          bool // retryAfter is named by the ledger
	detail         string
}

// Error is the reason.
func (f *failure) Error() string { return f.name() }

func (f *failure) name() string {
	return or(f.reason, "NO_ANSWER ("+f.code.String()+")")
}

// span is a duration of a request, in whole microseconds: the ledger refuses a part of one.
func span(d time.Duration) *durationpb.Duration { return durationpb.New(d.Truncate(time.Microsecond)) }

// failureOf reads the trailers with which the ledger marks its own errors.
func failureOf(err error, trailer metadata.MD) *failure {
	found := status.Convert(err)
	first := func(name string) string {
		if values := trailer.Get("idempotency-ledger-" + name); len(values) > 0 {
			return values[0]
		}
		return ""
	}
	f := &failure{code: found.Code(), reason: first("reason"), advice: first("advice"), detail: found.Message()}
	f.detail = strings.ToValidUTF8(f.detail[:min(len(f.detail), detailMax)], "")
	if ms, err := strconv.ParseUint(first("retry-after-ms"), 10, 40); err == nil {
		f.retryAfter, f.named = time.Duration(ms)*time.Millisecond, true
	}
	return f
}

// unknown reports whether it is unknown that the call was applied, as it is where the ledger did not make the error (rule 3):
// only its repeat finds out (rule 4).
func (f *failure) unknown() bool {
	switch f.reason {
	case "", "OUTCOME_UNKNOWN", "DEADLINE_EXCEEDED", "CANCELLED":
		return true
	}
	return false
}

// repeatable reports whether the identical request may be answered otherwise.
func (f *failure) repeatable() bool { return f.unknown() || f.named }

// advised is the advice of the error; RetryLater without one, and for one that this version does not know.
func (f *failure) advised() Advice {
	for _, known := range []Advice{Ack, DeadLetter} {
		if f.reason != "" && f.advice == known.String() {
			return known
		}
	}
	return RetryLater
}

// repeated sends the identical request until an answer decides, for the budget; each try has the timeout. It returns the
// answer and the instant at which its try was sent, and a failure for an error that no repeat changes, and where the budget
// does not leave time for another try.
func repeated[Q, A any](
	ctx context.Context, method func(context.Context, Q, ...grpc.CallOption) (A, error), request Q, budget, timeout time.Duration,
) (A, time.Time, *failure) {
	until := time.Now().Add(budget)
	pause := firstPause
	for repeat := false; ; repeat = true {
		sent := time.Now()
		try, cancel := context.WithTimeout(propagated(ctx), max(shortestTry, min(timeout, until.Sub(sent))))
		var trailer metadata.MD
		// Repeats wait for a connection: else all of them fail while a server is replaced.
		answer, err := method(try, request, grpc.Trailer(&trailer), grpc.WaitForReady(repeat))
		cancel()
		if err == nil {
			return answer, sent, nil
		}
		failed := failureOf(err, trailer)
		// With jitter: clients that were refused together, and repeated together, would only be refused again.
		wait := max(failed.retryAfter, time.Duration(float64(pause)*(0.5+rand.Float64()/2)))
		if !failed.repeatable() || !time.Now().Add(wait).Before(until) || !sleep(ctx, wait) {
			return answer, sent, failed
		}
		pause = min(pause*2, longestPause)
	}
}

// sleep waits; it reports false where the context ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(max(d, 0))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
