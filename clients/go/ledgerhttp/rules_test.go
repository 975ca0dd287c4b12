package ledgerhttp

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestKeys(t *testing.T) {
	for value, want := range map[string]string{
		"abc": "abc", `"abc"`: "abc", `"a b"`: "a b", `"a\"b"`: `a"b`, `"a\\b"`: `a\b`, strings.Repeat("x", 255): strings.Repeat("x", 255),
		"": "", "a b": "", "a,b": "", `"a`: "", `"a";b`: "", "\u00fc": "", strings.Repeat("x", 256): "", `""`: "", `"a\b"`: "",
	} {
		if key, ok := keyOf([]string{value}); key != want || ok != (want != "") {
			t.Errorf("%q is %q, %v", value, key, ok)
		}
	}
	if _, ok := keyOf([]string{"a", "a"}); ok {
		t.Error("two headers are a key")
	}
}

func TestSources(t *testing.T) {
	for _, test := range [][4]string{
		{"", "POST", "/orders", "/POST/%2Forders"},
		{"a/", "POST", "/ä b+~", "a%2F/POST/%2F%C3%A4%20b%2B~"},
		{strings.Repeat("t", 300), "POST", "/", "a350b0c737a704b0742c6c0550e1d7c18ed04fe1e2e9de287f618d483426cc52"},
	} {
		found := sourceOf(test[0], test[1], test[2])
		if found != test[3] {
			t.Errorf("%v has the source %q", test, found)
		}
	}
	if sourceOf(strings.Repeat("t", 300)+"1", "POST", "/") == sourceOf(strings.Repeat("t", 300)+"2", "POST", "/") {
		t.Error("two tenants have one source")
	}
}

// The forms are those that services in other languages write and read.
func TestStoredFormsAreThoseOfOtherLanguages(t *testing.T) {
	settings := Settings{}.filled()
	header := http.Header{"Content-Type": {"text/plain"}, "Location": {"/\xe4"}, "X-Private": {"p"}}
	whole := answer{201, header, []byte("created\n"), true}
	want := `[201,[["content-type","text/plain"],["location","/ä"]]]` + "\ncreated\n"
	if found := string(settings.stored(whole)); found != want {
		t.Errorf("stored is %q", found)
	}
	back := replayed([]byte(want))
	if back.status != 201 || string(back.body) != "created\n" || back.header.Get("Location") != "/\xe4" || back.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("replayed is %+v", back)
	}
	python := replayed([]byte("[201, [[\"content-type\", \"text/plain\"]]]\ncreated"))
	if python.status != 201 || string(python.body) != "created" || python.header.Get("Content-Type") != "text/plain" {
		t.Errorf("what Python stores is %+v", python)
	}
	large := answer{201, header, []byte(strings.Repeat("x", 16_384)), true}
	if found := string(settings.stored(large)); found != `[201,[["content-type","text/plain"],["location","/ä"]],"omitted"]` {
		t.Errorf("stored of a large one is %q", found)
	}
	for _, stored := range []string{"", `[200, [], "omitted"]`, "not of this form", `["a"]`, `[7,[]]`} {
		found := replayed([]byte(stored))
		if found.status != 200 || len(found.body) > 0 || stored != `[7,[]]` && found.header.Get("Idempotency-Body") != omitted {
			t.Errorf("%q is %+v", stored, found)
		}
	}
}

func TestRecorder(t *testing.T) {
	r := &recorder{header: http.Header{}, most: 10}
	r.WriteHeader(http.StatusEarlyHints)
	r.Header().Set("A", "1")
	_, _ = r.Write([]byte("<html>"))
	r.Header().Set("A", "2")
	r.WriteHeader(500)
	if found := r.done(); found.status != 200 || found.header.Get("A") != "1" || !found.whole || !strings.HasPrefix(found.header.Get("Content-Type"), "text/html") {
		t.Errorf("the answer is %+v", found)
	}
	_, _ = r.Write([]byte("012345"))
	if found := r.done(); found.whole || len(found.body) > 0 || found.header.Get("Idempotency-Body") != omitted {
		t.Errorf("a large answer is %+v", found)
	}
	empty := &recorder{header: http.Header{}, most: 10}
	empty.WriteHeader(http.StatusNoContent)
	if _, err := empty.Write([]byte("x")); err == nil {
		t.Error("204 has a body")
	}
	sent := httptest.NewRecorder()
	empty.done().send(sent)
	if sent.Code != 204 || sent.Header().Get("Content-Length") != "" {
		t.Errorf("204 is sent with %v", sent.Header())
	}
}

func TestDefaultRule(t *testing.T) {
	for status, want := range map[int]Rule{200: Store, 302: Store, 402: Store, 418: Store, 400: Release, 409: Release, 429: Release, 500: Fail, 599: Fail} {
		if found := DefaultRule(status); found != want {
			t.Errorf("%d is %v", status, found)
		}
	}
}
