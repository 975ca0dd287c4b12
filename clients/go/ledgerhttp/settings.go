package ledgerhttp

import (
	"net/http"
	"slices"
	"strings"
	"time"
)

// Rule is what the status of an answer says of the request's effect.
type Rule int

const (
	// Store: there was an effect, or the answer is final; a repeat gets this answer.
	Store Rule = iota
	// Release: there was none; the key may be used again, also with another body. Once announced, the answer is stored.
	Release
	// Fail: it is unknown; a repeat runs again. Once announced, the request is parked for a person.
	Fail
)

// DefaultRule fails 5xx, releases 400, 401, 403, 404, 409, 422 and 429, and stores all others.
func DefaultRule(status int) Rule {
	if status >= 500 {
		return Fail
	}
	if slices.Contains([]int{400, 401, 403, 404, 409, 422, 429}, status) {
		return Release
	}
	return Store
}

// Settings are those of [Middleware]. The zero value is right for an API with one tenant and no ids in its paths.
type Settings struct {
	// Tenant is whose key it is: keys of two tenants never meet. nil: there is one tenant.
	Tenant func(*http.Request) string
	// Route is the route of a request, such as /orders/{id}; nil: its path. Give one wherever paths have ids, since the
	// ledger stores each source for ever.
	Route func(*http.Request) string
	// Methods are those whose requests need a key; nil: POST and PATCH. Other requests are passed on without a claim.
	Methods []string
	// Optional: a request without a key is passed on without protection, rather than answered 400.
	Optional bool
	// Wait is how long a request waits while the first one is not done; 0: 5 s, negative: it does not wait.
	Wait time.Duration
	// Rule is what an answer's status says of the effect; nil: [DefaultRule].
	Rule func(status int) Rule
	// KeptHeaders are the headers that are stored with an answer; nil: Content-Type, Content-Encoding and Location.
	KeptHeaders []string
	// BodyMax is the largest body of a request, in bytes; a larger one is answered 413. 0: 1 MiB.
	BodyMax int64
	// ResultMax is the largest answer that is stored with its body, in bytes: at most the ledger's result_bytes_max. 0:
	// 16 KiB.
	ResultMax int
	// AnswerMax is the largest answer that is held in memory, in bytes. Of a larger one only status and headers are sent.
	// 0: 8 MiB.
	AnswerMax int
	// Reread answers a repeat whose first answer was stored without its body. nil: such a repeat gets status and headers,
	// and Idempotency-Body: omitted.
	Reread http.Handler
}

// filled is the settings with their defaults.
func (s Settings) filled() Settings {
	if s.Tenant == nil {
		s.Tenant = func(*http.Request) string { return "" }
	}
	if s.Route == nil {
		s.Route = func(r *http.Request) string { return r.URL.Path }
	}
	if s.Methods == nil {
		s.Methods = []string{http.MethodPost, http.MethodPatch}
	}
	if s.Wait == 0 {
		s.Wait = 5 * time.Second
	}
	s.Wait = max(s.Wait, 0)
	if s.Rule == nil {
		s.Rule = DefaultRule
	}
	if s.KeptHeaders == nil {
		s.KeptHeaders = []string{"content-type", "content-encoding", "location"}
	}
	kept := make([]string, 0, len(s.KeptHeaders))
	for _, name := range s.KeptHeaders {
		kept = append(kept, strings.ToLower(name))
	}
	s.KeptHeaders = kept
	s.BodyMax = filled(s.BodyMax, 1<<20)
	s.ResultMax = filled(s.ResultMax, 16_384)
	s.AnswerMax = filled(s.AnswerMax, 8<<20)
	return s
}

func filled[N int | int64](size, otherwise N) N {
	if size == 0 {
		return otherwise
	}
	return size
}
