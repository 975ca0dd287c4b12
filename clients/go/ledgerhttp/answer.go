package ledgerhttp

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"idempotency-ledger.internal/ledger"
)

// answer is one of HTTP.
type answer struct {
	status int
	header http.Header
	body   []byte
	// whole is false where the body is left out.
	whole bool
}

// omitted stands in a stored answer for its body.
const omitted = "omitted"

// stored is what the ledger keeps of an answer, the same in all languages: a line of JSON, [status, [[name, value], …]], then
// a newline and the body. Without a body the list has a third element, and no newline follows.
func (s Settings) stored(a answer) []byte {
	kept := [][2]string{}
	for name, values := range a.header {
		if slices.Contains(s.KeptHeaders, strings.ToLower(name)) {
			for _, value := range values {
				kept = append(kept, [2]string{strings.ToLower(name), textOf(value)})
			}
		}
	}
	sort.SliceStable(kept, func(i, j int) bool { return kept[i][0] < kept[j][0] })
	head, _ := json.Marshal([]any{a.status, kept}) // Numbers and text cannot fail.
	if whole := slices.Concat(head, []byte("\n"), a.body); a.whole && len(whole) <= s.ResultMax {
		return whole
	}
	head, _ = json.Marshal([]any{a.status, kept, omitted})
	return head
}

// replayed is the answer to a repeat. Where no result is stored that can be read, the effect happened all the same.
func replayed(result []byte) answer {
	head, body, _ := bytes.Cut(result, []byte("\n"))
	found := answer{status: http.StatusOK, header: http.Header{}}
	var parts []json.RawMessage
	var kept [][2]string
	if json.Unmarshal(head, &parts) == nil && len(parts) >= 2 &&
		json.Unmarshal(parts[0], &found.status) == nil && json.Unmarshal(parts[1], &kept) == nil {
		found.body, found.whole = body, len(parts) == 2
	}
	if found.status < 200 || found.status > 999 {
		found.status = http.StatusOK
	}
	for _, pair := range kept {
		found.header.Add(pair[0], bytesOf(pair[1]))
	}
	found.header.Set("Idempotency-Replayed", "true")
	if !found.whole {
		found.body = nil
		found.header.Set("Idempotency-Body", omitted)
	}
	return found
}

// textOf is the value of a header as text: its bytes are those of Latin-1.
func textOf(value string) string {
	var text strings.Builder
	for _, b := range []byte(value) {
		text.WriteRune(rune(b))
	}
	return text.String()
}

// bytesOf is the value of a header again; what is not Latin-1 stays as it is.
func bytesOf(text string) string {
	value := make([]byte, 0, len(text))
	for _, r := range text {
		if r > 0xFF {
			return text
		}
		value = append(value, byte(r))
	}
	return string(value)
}

// refused is the answer where there is none of the application: it did not run, or its claim was lost amid it.
func refused(outcome ledger.Outcome[[]byte]) answer {
	switch {
	case outcome.Reason == "fingerprint_mismatch":
		return problem(http.StatusUnprocessableEntity, "this Idempotency-Key was used with another body", 0)
	case outcome.Advice == ledger.DeadLetter:
		return problem(http.StatusInternalServerError, "an earlier request may have had its effect: a person must find out", 0)
	case outcome.Reason == "in_progress" || outcome.Reason == "backoff":
		return problem(http.StatusConflict, "the first request with this Idempotency-Key is not done yet", outcome.Delay)
	}
	return problem(http.StatusServiceUnavailable, "whether this request was processed cannot be known now: repeat it", outcome.Delay)
}

// problem is an answer of the middleware itself (RFC 9457).
func problem(status int, title string, retryAfter time.Duration) answer {
	body, _ := json.Marshal(struct {
		Title  string `json:"title"`
		Status int    `json:"status"`
	}{title, status})
	header := http.Header{"Content-Type": {"application/problem+json"}}
	if retryAfter > 0 {
		header.Set("Retry-After", strconv.Itoa(int(math.Ceil(retryAfter.Seconds()))))
	}
	return answer{status, header, body, true}
}

// send writes the answer. The length is that of the body.
func (a answer) send(w http.ResponseWriter) {
	header := w.Header()
	for name, values := range a.header {
		header[name] = values
	}
	header.Del("Transfer-Encoding")
	header.Del("Content-Length")
	if a.status != http.StatusNoContent && a.status != http.StatusNotModified {
		header.Set("Content-Length", strconv.Itoa(len(a.body)))
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // A client that is gone gets the answer by its repeat.
}

// recorder is the answer of an application, as it is written.
type recorder struct {
	header http.Header
	most   int
	answer answer
	size   int
}

func (r *recorder) Header() http.Header { return r.header }

// WriteHeader keeps the headers as they are now; those of 1xx are not passed on.
func (r *recorder) WriteHeader(status int) {
	if r.answer.status == 0 && status >= 200 {
		r.answer.status, r.answer.header = status, r.header.Clone()
	}
}

// Write keeps nothing of a body that is too large.
func (r *recorder) Write(part []byte) (int, error) {
	if r.answer.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	if r.answer.status == http.StatusNoContent || r.answer.status == http.StatusNotModified {
		return 0, http.ErrBodyNotAllowed
	}
	if r.size == 0 && len(part) > 0 && r.answer.header["Content-Type"] == nil && r.answer.header.Get("Content-Encoding") == "" {
		r.answer.header.Set("Content-Type", http.DetectContentType(part)) // As net/http does; a repeat gets the same.
	}
	r.size += len(part)
	if r.size > r.most {
		r.answer.body = nil
	} else {
		r.answer.body = append(r.answer.body, part...)
	}
	return len(part), nil
}

// done is the whole answer.
func (r *recorder) done() answer {
	if r.answer.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	r.answer.whole = r.size <= r.most
	if !r.answer.whole {
		r.answer.header.Set("Idempotency-Body", omitted)
	}
	return r.answer
}
