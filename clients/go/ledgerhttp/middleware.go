// Package ledgerhttp is middleware for the header Idempotency-Key: a repeated request gets the first answer, and has one
// effect.
package ledgerhttp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"idempotency-ledger.internal/ledger"
)

var (
	malformed = problem(http.StatusBadRequest, "Idempotency-Key must be there once: 1 to 255 visible ASCII characters, or a quoted string", 0)
	missing   = problem(http.StatusBadRequest, "this request needs the header Idempotency-Key", 0)
	unread    = problem(http.StatusBadRequest, "the body of this request cannot be read", 0)
	closing   = problem(http.StatusServiceUnavailable, "this server is shutting down", time.Second)
	abandoned = problem(http.StatusServiceUnavailable, "this request was cancelled before it was processed: repeat it", time.Second)
)

type claimKey struct{}

// ClaimFrom returns the claim of a request, by its context; nil where the request is not protected.
func ClaimFrom(ctx context.Context) *ledger.Claim {
	claim, _ := ctx.Value(claimKey{}).(*ledger.Claim)
	return claim
}

// Middleware lets a handler process each request with an Idempotency-Key once. The consumer of the ledger is the name of the
// API; close the ledger when the server has shut down.
//
// The context of the handler's request ends with the loss of its claim, and not where the client goes away. The answer is held
// in memory until it is settled, so that it cannot be flushed or hijacked: leave streams out by Settings.Methods, or by wrapping
// single handlers. A panic goes on after it is settled; what the handler has answered is sent whatever became of its claim.
func Middleware(l *ledger.Ledger, settings Settings) func(http.Handler) http.Handler {
	m := &middleware{l, settings.filled()}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.serve(w, r, next) })
	}
}

type middleware struct {
	ledger   *ledger.Ledger
	settings Settings
}

func (m *middleware) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	sent := r.Header.Values("Idempotency-Key")
	if !slices.Contains(m.settings.Methods, r.Method) || len(sent) == 0 && m.settings.Optional {
		next.ServeHTTP(w, r)
		return
	}
	key, ok := keyOf(sent)
	if !ok {
		if len(sent) == 0 {
			missing.send(w)
		} else {
			malformed.send(w)
		}
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, m.settings.BodyMax))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		problem(http.StatusRequestEntityTooLarge, fmt.Sprintf("a body may have %d bytes", m.settings.BodyMax), 0).send(w)
	case err != nil:
		unread.send(w)
	default:
		m.process(w, r, next, key, body)
	}
}

func (m *middleware) process(w http.ResponseWriter, r *http.Request, next http.Handler, key string, body []byte) {
	e := &exchange{middleware: m, request: r, next: next, body: body, header: w.Header()}
	source := sourceOf(m.settings.Tenant(r), r.Method, m.settings.Route(r))
	outcome, err := ledger.Process(r.Context(), m.ledger, ledger.Key{Source: source, ID: key}, e.handle,
		ledger.Body(body), ledger.Wait(m.settings.Wait))
	switch {
	case e.answer != nil: // Whatever became of its claim: the effect happened.
		clear(w.Header()) // The application was given these, and may have removed some.
		e.answer.send(w)
	case errors.Is(err, ledger.ErrClosed):
		closing.send(w)
	case err != nil:
		abandoned.send(w)
	case !outcome.Replayed:
		refused(outcome).send(w)
	default:
		m.repeat(w, r, body, replayed(outcome.Result))
	}
}

// repeat answers as the first request was answered.
func (m *middleware) repeat(w http.ResponseWriter, r *http.Request, body []byte, found answer) {
	if found.whole || m.settings.Reread == nil {
		found.send(w)
		return
	}
	w.Header().Set("Idempotency-Replayed", "true")
	m.settings.Reread.ServeHTTP(w, withBody(r.Context(), r, body))
}

// exchange is one request under way, and what the application has answered.
type exchange struct {
	*middleware
	request *http.Request
	next    http.Handler
	body    []byte
	header  http.Header
	answer  *answer
}

// handle calls the application. What it returns is stored of the answer; its error says how the claim is settled.
func (e *exchange) handle(ctx context.Context, claim *ledger.Claim) ([]byte, error) {
	written := &recorder{header: e.header.Clone(), most: e.settings.AnswerMax}
	e.serve(written, withBody(context.WithValue(ctx, claimKey{}, claim), e.request, e.body), claim)
	if lost := claim.Check(); lost != nil && written.answer.status == 0 {
		return nil, lost // It has ended for that, and has answered nothing.
	}
	found := written.done()
	e.answer = &found
	switch e.settings.Rule(found.status) {
	case Fail:
		return nil, failure(fmt.Sprintf("status %d", found.status), claim)
	case Release:
		if !claim.Announced() {
			return nil, ledger.GiveBack(fmt.Sprintf("status %d", found.status)).Unpin()
		}
	}
	return e.settings.stored(found), nil
}

// serve settles a panic of the application, which then goes on.
func (e *exchange) serve(w http.ResponseWriter, r *http.Request, claim *ledger.Claim) {
	returned := false
	defer func() {
		if returned {
			return
		}
		if cause := recover(); cause != nil { // Without one the goroutine ends by runtime.Goexit.
			claim.Fail(failure(fmt.Sprintf("panic of type %T", cause), claim))
			panic(cause)
		}
	}()
	e.next.ServeHTTP(w, r)
	returned = true
}

// failure is how the claim of a request is settled whose effect is unknown.
func failure(reason string, claim *ledger.Claim) *ledger.SteerError {
	if claim.Announced() {
		return ledger.Park(reason)
	}
	return ledger.Retry(reason).After(0)
}

// withBody is the request with its body, which was read, to be read again.
func withBody(ctx context.Context, r *http.Request, body []byte) *http.Request {
	again := r.WithContext(ctx)
	again.Body, again.ContentLength, again.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
	return again
}
