package ledger

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"idempotency-ledger.internal/ledger/internal/logged"
)

func TestOptionsBeyondTheirBounds(t *testing.T) {
	for _, test := range []struct {
		consumer string
		options  Options
		field    string
	}{
		{"", Options{}, "key.consumer"},
		{strings.Repeat("x", 129), Options{}, "key.consumer"},
		{"a\tb", Options{}, "key.consumer"},
		{"c", Options{Owner: strings.Repeat("x", 129)}, "owner"},
		{"c", Options{Lease: time.Millisecond}, "lease"},
		{"c", Options{Lease: 25 * time.Hour}, "lease"},
		{"c", Options{Unexpected: ErrTerminal}, "unexpected"},
		{"c", Options{Endpoint: "localhost"}, "endpoint"},
		{"c", Options{Endpoint: "https://localhost"}, "endpoint"},
		{"c", Options{Endpoint: "ipv4:127.0.0.1"}, "endpoint"},
		{"c", Options{Endpoint: "http://a:1", CAFile: "ca.pem"}, "endpoint"},
		{"c", Options{Endpoint: "ipv4:127.0.0.1:1,127.0.0.1:2", CAFile: "ca.pem"}, "endpoint"},
		{"c", Options{Endpoint: "a:1", TokenFile: "token"}, "token_file"},
		{"c", Options{Endpoint: "https://a:1", ClientCertFile: "a"}, "client_cert_file"},
		{"c", Options{Endpoint: "http://a:1", ClientCertFile: "a", ClientKeyFile: "b"}, "client_cert_file"},
	} {
		_, err := New(test.consumer, test.options)
		var invalid *InvalidFieldError
		if !errors.As(err, &invalid) || invalid.Field != test.field {
			t.Errorf("%q with %+v is answered %v", test.consumer, test.options, err)
		}
	}
}

func TestTargets(t *testing.T) {
	for endpoint, want := range map[string]target{
		"ledger:50051":                {"dns:///ledger:50051", false, nil},
		"127.0.0.1:50051":             {"dns:///127.0.0.1:50051", false, nil},
		"[::1]:50051":                 {"dns:///[::1]:50051", false, nil},
		"https://ledger:443/":         {"dns:///ledger:443", true, nil},
		"http://ledger:80":            {"dns:///ledger:80", false, nil},
		"dns:///ledger:50051":         {"dns:///ledger:50051", false, nil},
		"unix:/run/ledger":            {"unix:/run/ledger", false, nil},
		"ipv4:10.0.0.1:1,10.0.0.2:22": {"list:///ledger", false, []string{"10.0.0.1:1", "10.0.0.2:22"}},
		"ipv6:[::1]:1,[::2]:22":       {"list:///ledger", false, []string{"[::1]:1", "[::2]:22"}},
	} {
		found, err := Options{Endpoint: endpoint}.target()
		if err != nil || found.name != want.name || found.tls != want.tls || !slices.Equal(found.list, want.list) {
			t.Errorf("%s is %+v, %v", endpoint, found, err)
		}
	}
}

func TestTheEnvironmentFillsWhatIsNotGiven(t *testing.T) {
	t.Setenv("LEDGER_ENDPOINT", "https://a:1")
	t.Setenv("LEDGER_TOKEN_FILE", "token")
	t.Setenv("LEDGER_CA_FILE", "ca.pem")
	found, err := Options{}.checked("c")
	if err != nil || found.Endpoint != "https://a:1" || found.TokenFile != "token" || found.CAFile != "ca.pem" || found.Owner == "" {
		t.Errorf("%+v, %v", found, err)
	}
	if found, _ = (Options{Endpoint: "b:2"}).checked("c"); found.Endpoint != "b:2" {
		t.Errorf("what is given was replaced by %s", found.Endpoint)
	}
}

func TestTokensAreReadAgainWhenTheirFileChanges(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	credentials := &tokenFile{path: file}
	if _, err := credentials.GetRequestMetadata(t.Context()); err == nil {
		t.Error("a file that is not there has a token")
	}
	for _, token := range []string{"one", "another", "two"} {
		if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			found, err := credentials.GetRequestMetadata(t.Context())
			if err != nil || found["authorization"] != "Bearer "+token {
				t.Errorf("the token is %v, %v", found, err)
			}
		}
	}
	if !credentials.RequireTransportSecurity() {
		t.Error("a token is sent in the clear")
	}
}

func TestABudgetBeyondTheBrokersWaitIsWarnedOf(t *testing.T) {
	for budget, warns := range map[time.Duration]bool{time.Minute: true, time.Second: false} {
		var log bytes.Buffer
		l, err := New("c", Options{HandlerBudget: budget, AckWait: 30 * time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil || l.Close(context.Background()) != nil || strings.Contains(log.String(), "WARN") != warns {
			t.Errorf("%v: %s, %v", budget, log.String(), err)
		}
	}
}

func TestEveryKindIsLoggedOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := report{consumer: "c", logger: slog.New(slog.NewTextHandler(&log, nil))}
		for range 5 {
			r.outcome(outcome{Reason: "OVERLOADED", Detail: "a queue is full"})
			r.outcome(outcome{Reason: "STORE_UNAVAILABLE", Detail: "no store"})
			r.outcome(outcome{Reason: "Retry", Err: ErrRetry})
		}
		if lines := strings.Count(log.String(), "\n"); lines != 2 {
			t.Errorf("%d lines were logged: %s", lines, log.String())
		}
		time.Sleep(time.Second)
		r.outcome(outcome{Reason: "OVERLOADED", Detail: "a queue is full"})
		if !strings.Contains(log.String(), "suppressed=4") {
			t.Errorf("the number of suppressed lines is missing: %s", log.String())
		}
	})
}

func TestAnErrorThatAGuardHidesIsLoggedByItsType(t *testing.T) {
	cause := errors.New("card 4111")
	for _, test := range []struct {
		err  error
		said string
	}{
		{Doubtful("*sqlite.Error of the database").Because(&logged.Error{Err: cause}), "reason=\"*sqlite.Error of the database\" type=*errors.errorString"},
		{Retry("chosen").Because(cause), ""},
		{&InvalidFieldError{"dialect", "must be SQLite"}, "dialect: must be SQLite"},
	} {
		var log bytes.Buffer
		r := report{consumer: "c", logger: slog.New(slog.NewTextHandler(&log, nil))}
		found := outcome{Reason: "other", Err: test.err}
		var steer *SteerError
		if errors.As(test.err, &steer) {
			found.Reason = steer.reason
		}
		r.outcome(found)
		if (log.Len() > 0) != (test.said != "") || !strings.Contains(log.String(), test.said) || strings.Contains(log.String(), "4111") {
			t.Errorf("%v is logged as: %s", test.err, log.String())
		}
	}
}
