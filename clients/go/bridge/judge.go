package main

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"idempotency-ledger.internal/ledger"
)

// How a POST was settled, as the metrics name it.
const (
	complete = "complete" // the effect is done
	retry    = "retry"    // there was no effect; another attempt
	terminal = "terminal" // there was no effect, and there never will be
	unknown  = "unknown"  // by the setting unknown
	release  = "release"  // nothing was done: the attempt does not count
	lost     = "lost"     // the claim was lost meanwhile: nothing is settled
)

// The statuses by which a handler says that the effect did not happen, and that the message may come again.
var retryable = []int{
	http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests,
}

// The redirects that say that nothing was done here. The others may follow an effect, as 303 does by its meaning.
var moved = []int{http.StatusMovedPermanently, http.StatusTemporaryRedirect, http.StatusPermanentRedirect}

// answer is what came of a POST.
type answer struct {
	// sent: a connection was there, so that the handler may have got the request.
	sent bool
	// fault is why there is no whole answer; empty where there is one.
	fault      string
	status     int
	retryAfter string // the header
	date       string // the header
	body       []byte
	tooLarge   bool // the body has more bytes than are read
}

// judge is how an answer settles the claim, and the error that does it; nil completes.
func (s *settings) judge(a answer) (settled string, err error) {
	switch {
	case a.fault != "" && !a.sent:
		return release, ledger.GiveBack("nothing was sent: " + a.fault).After(s.releaseDelay)
	case a.fault != "":
		return unknown, s.doubt("no whole answer: " + a.fault)
	}
	reason := fmt.Sprintf("HTTP %d", a.status)
	delay, named := s.delay(a)
	switch {
	case a.status >= 200 && a.status <= 299:
		return complete, nil
	case slices.Contains(retryable, a.status) || a.status == http.StatusServiceUnavailable && named:
		if named {
			return retry, ledger.Retry(reason).After(delay)
		}
		return retry, ledger.Retry(reason)
	case slices.Contains(s.terminal, a.status):
		return terminal, ledger.Terminal(reason)
	case a.status >= 400 && a.status <= 499 || slices.Contains(moved, a.status):
		return release, ledger.GiveBack(reason).After(s.releaseDelay)
	}
	return unknown, s.doubt(reason)
}

// doubt settles where it is unknown whether the effect happened.
func (s *settings) doubt(reason string) error {
	switch s.unknown {
	case "retry":
		return ledger.Retry(reason)
	case "doubtful":
		return ledger.Doubtful(reason)
	}
	return ledger.Park(reason)
}

// delay reads Retry-After: seconds, or an instant, by the handler's clock where the answer has a date.
func (s *settings) delay(a answer) (delay time.Duration, named bool) {
	text := strings.TrimSpace(a.retryAfter)
	if seconds, err := strconv.ParseUint(text, 10, 63); err == nil {
		return min(time.Duration(min(seconds, uint64(s.retryAfterMax/time.Second)+1))*time.Second, s.retryAfterMax), true
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0, false
	}
	now, err := http.ParseTime(a.date)
	if err != nil {
		now = time.Now()
	}
	return min(max(at.Sub(now), 0), s.retryAfterMax), true
}
