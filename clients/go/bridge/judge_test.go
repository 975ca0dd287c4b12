package main

import (
	"errors"
	"testing"
	"time"

	"idempotency-ledger.internal/ledger"
)

func defaults(t *testing.T, arguments ...string) *settings {
	t.Helper()
	s := &settings{}
	if err := s.read(arguments, func(string) (string, bool) { return "", false }); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStatusTable(t *testing.T) {
	s := defaults(t)
	sentinels := map[string]error{retry: ledger.ErrRetry, terminal: ledger.ErrTerminal, unknown: ledger.ErrPark, release: ledger.ErrGiveBack}
	for settled, statuses := range map[string][]int{
		complete: {200, 201, 202, 204, 299},
		retry:    {408, 409, 425, 429},
		terminal: {400, 410, 411, 413, 414, 415, 422, 431},
		// 404 and the like are rather those of a wrong URL or a wrong token than of a message.
		release: {401, 402, 403, 404, 405, 406, 407, 412, 418, 421, 423, 424, 426, 428, 451, 499, 301, 307, 308},
		unknown: {300, 302, 303, 304, 500, 501, 502, 503, 504, 507, 599, 101, 600, 999},
	} {
		for _, status := range statuses {
			found, err := s.judge(answer{sent: true, status: status})
			if found != settled || settled == complete && err != nil || settled != complete && !errors.Is(err, sentinels[settled]) {
				t.Errorf("%d: %s, %v; want %s", status, found, err, settled)
			}
		}
	}
	for what, test := range map[string]struct {
		answer  answer
		settled string
	}{
		"503 with Retry-After":                    {answer{sent: true, status: 503, retryAfter: "1"}, retry},
		"500 with Retry-After":                    {answer{sent: true, status: 500, retryAfter: "1"}, unknown},
		"nothing was sent":                        {answer{fault: "refused"}, release},
		"sent, and no answer":                     {answer{sent: true, fault: "cut"}, unknown},
		"an answer of success that is cut":        {answer{sent: true, status: 200, fault: "cut"}, unknown},
		"a larger answer of success than is read": {answer{sent: true, status: 200, tooLarge: true}, complete},
	} {
		if found, _ := s.judge(test.answer); found != test.settled {
			t.Errorf("%s: %s, want %s", what, found, test.settled)
		}
	}
}

func TestUnknownEffectFollowsItsSetting(t *testing.T) {
	for value, want := range map[string]error{"park": ledger.ErrPark, "retry": ledger.ErrRetry, "doubtful": ledger.ErrDoubtful} {
		if _, err := defaults(t, "--unknown", value).judge(answer{sent: true, fault: "cut"}); !errors.Is(err, want) {
			t.Errorf("%s: %v", value, err)
		}
	}
}

func TestTerminalStatusesFollowTheirSetting(t *testing.T) {
	s := defaults(t, "--terminal", "404, 422")
	for status, want := range map[int]string{404: terminal, 422: terminal, 400: release} {
		if found, _ := s.judge(answer{sent: true, status: status}); found != want {
			t.Errorf("%d: %s, want %s", status, found, want)
		}
	}
}

func TestRetryAfterIsBounded(t *testing.T) {
	s := defaults(t, "--retry-after-max", "1h")
	for text, want := range map[string]time.Duration{
		"0": 0, "7": 7 * time.Second, " 7 ": 7 * time.Second, "3600": time.Hour, "3601": time.Hour,
		"9223372036854775807": time.Hour, "9223372036854775808": -1, "-1": -1, "1.5": -1, "soon": -1, "": -1,
		"Fri, 02 Jan 2026 12:00:30 GMT": 30 * time.Second, "Fri, 02 Jan 2026 11:00:00 GMT": 0, "Sat, 03 Jan 2026 12:00:00 GMT": time.Hour,
	} {
		delay, named := s.delay(answer{retryAfter: text, date: "Fri, 02 Jan 2026 12:00:00 GMT"})
		if named != (want >= 0) || named && delay != want {
			t.Errorf("%q: %v, %v; want %v", text, delay, named, want)
		}
	}
}
