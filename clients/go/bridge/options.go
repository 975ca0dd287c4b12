package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// variables is the beginning of the names of variables in the environment.
const variables = "LEDGER_BRIDGE_"

// option is a setting: a flag, and a variable of the environment, which the flag overrides.
type option struct {
	group    string // the heading of the option and of those that follow
	name     string // of the flag
	variable string // of the environment; empty: LEDGER_BRIDGE_ and the flag's name
	value    string // the default
	usage    string
	set      func(string) error
	isSwitch bool // the flag needs no value
}

// environment is the name of the option's variable.
func (o option) environment() string {
	if o.variable != "" {
		return o.variable
	}
	return variables + strings.ToUpper(strings.ReplaceAll(o.name, "-", "_"))
}

// options are all settings, in the order of the manual.
func (s *settings) options() []option {
	return []option{
		{group: "What is processed", name: "consumer", set: text(&s.consumer), usage: "the consumer of the ledger: the group that processes, 1 to 128 bytes; must be set"},
		{name: "url", set: text(&s.url), usage: "where each message is POSTed: http:// or https://; must be set"},

		{group: "From NATS JetStream", name: "nats-url", set: text(&s.nats.url), usage: "nats://HOST:PORT or tls://HOST:PORT; several are separated by commas. A user and a password belong in the credentials file"},
		{name: "nats-stream", set: text(&s.nats.stream), usage: "the stream, which must exist"},
		{name: "nats-consumer", set: text(&s.nats.consumer), usage: "the durable pull consumer, which must exist, with explicit acknowledgement; best with max_deliver -1"},
		{name: "nats-dead-letter-subject", set: text(&s.nats.deadLetters), usage: "a subject of another stream, where a copy of each dead letter is stored; without it a dead letter is terminated, and stays in its stream"},
		{name: "nats-credentials-file", set: text(&s.nats.credentials), usage: "a credentials file of NATS (JWT and seed)"},
		{name: "nats-ca-file", set: text(&s.nats.tls.ca), usage: "the authorities of the servers, in PEM; asks for TLS"},
		{name: "nats-cert-file", set: text(&s.nats.tls.cert), usage: "the bridge's certificate for NATS, in PEM"},
		{name: "nats-key-file", set: text(&s.nats.tls.key), usage: "its private key, in PEM"},

		{group: "From Kafka", name: "kafka-brokers", set: text(&s.kafka.brokers), usage: "HOST:PORT of the first brokers to ask, separated by commas"},
		{name: "kafka-topic", set: text(&s.kafka.topic), usage: "the topic"},
		{name: "kafka-group", set: text(&s.kafka.group), usage: "the consumer group (default: the consumer)"},
		{name: "kafka-retry-topic", set: text(&s.kafka.retries), usage: "the topic of messages that come later, which must exist; without it their partitions wait"},
		{name: "kafka-dead-letter-topic", set: text(&s.kafka.deadLetters), usage: "the topic of dead letters, which must exist (default: TOPIC.dead)"},
		{name: "kafka-session-timeout", value: "45s", set: duration(&s.kafka.session, time.Second, time.Hour), usage: "after this time without a heartbeat the group gives the partitions of this process to others"},
		{name: "kafka-tls", value: "false", set: boolean(&s.kafka.secured), isSwitch: true, usage: "speak TLS; so do the three that follow"},
		{name: "kafka-ca-file", set: text(&s.kafka.tls.ca), usage: "the authorities of the brokers, in PEM"},
		{name: "kafka-cert-file", set: text(&s.kafka.tls.cert), usage: "the bridge's certificate for Kafka, in PEM"},
		{name: "kafka-key-file", set: text(&s.kafka.tls.key), usage: "its private key, in PEM"},
		{name: "kafka-sasl", set: choice(&s.kafka.sasl, "", "plain", "scram-sha-256", "scram-sha-512"), usage: "how the bridge identifies itself: plain, scram-sha-256 or scram-sha-512"},
		{name: "kafka-user", set: text(&s.kafka.user), usage: "the user of kafka-sasl"},
		{name: "kafka-password-file", set: text(&s.kafka.password), usage: "a file with the user's password, which is read again for each connection"},

		{group: "The handler behind the URL", name: "timeout", value: "15s", set: duration(&s.timeout, 100*time.Millisecond, time.Hour), usage: "from the beginning of a POST to the end of its answer; best not longer than grace"},
		{name: "connect-timeout", value: "5s", set: duration(&s.connectTimeout, 10*time.Millisecond, time.Minute), usage: "how long a connection and its TLS handshake may take each"},
		{name: "keep-alive", value: "0s", set: duration(&s.keepAlive, 0, time.Hour), usage: "how long an idle connection is kept; 0: each POST has a connection. Keep it well below the handler's own: a connection that the handler closes during a POST leaves the effect unknown"},
		{name: "answer-max", value: "65536", set: number(&s.answerMax, 0, 1<<24), usage: "how many bytes of an answer's body are read"},
		{name: "result", value: "none", set: choice(&s.result, "none", "body"), usage: "what the ledger stores as the result: none, or the body of the answer, if it has at most answer-max bytes; the ledger drops one of more than 16 KiB unless its policy allows more"},
		{name: "unknown", value: "park", set: choice(&s.unknown, "park", "retry", "doubtful"), usage: "when it is unknown whether the handler had its effect: park (a person looks), retry (the next attempt follows the policy's back-off), or doubtful (the lease runs out, and the next attempt has Idempotency-Ledger-Effect-Unknown: true). The latter two only if the handler deduplicates by Idempotency-Key, or fences"},
		{name: "terminal", value: "400,410,411,413,414,415,422,431", set: statuses(&s.terminal), usage: "the statuses by which the handler says that this message can never be processed: it is dead-lettered"},
		{name: "retry-after-max", value: "1h", set: duration(&s.retryAfterMax, 0, 720*time.Hour), usage: "a Retry-After that is longer is taken as this"},
		{name: "release-delay", value: "5s", set: duration(&s.releaseDelay, 100*time.Millisecond, time.Hour), usage: "when a message comes again that was not POSTed, or was refused by a status of a wrong setting"},
		{name: "type", value: "idempotency-ledger.bridge.message", set: text(&s.plainType), usage: "the CloudEvents type of a message that is not a CloudEvent"},
		{name: "url-ca-file", set: text(&s.tls.ca), usage: "the authorities of the handler's certificate, in PEM (default: the system's)"},
		{name: "url-cert-file", set: text(&s.tls.cert), usage: "the bridge's certificate for the handler, in PEM, which is read again for each connection"},
		{name: "url-key-file", set: text(&s.tls.key), usage: "its private key, in PEM"},
		{name: "url-token-file", set: text(&s.urlToken), usage: "a file with a bearer token for the handler, which is read again for each POST; only with https://, or on this machine"},

		{group: "The ledger", name: "ledger", variable: "LEDGER_ENDPOINT", set: text(&s.ledger.Endpoint), usage: "HOST:PORT, https://HOST:PORT, or a gRPC target (default: 127.0.0.1:50051)"},
		{name: "ledger-ca-file", variable: "LEDGER_CA_FILE", set: text(&s.ledger.CAFile), usage: "the authorities of the servers, in PEM; asks for TLS (default: the system's, with https://)"},
		{name: "ledger-token-file", variable: "LEDGER_TOKEN_FILE", set: text(&s.ledger.TokenFile), usage: "a file with a bearer token, which is sent by TLS alone, and read again when it changes"},
		{name: "ledger-cert-file", set: text(&s.ledger.ClientCertFile), usage: "the bridge's certificate for the ledger, in PEM, which is read again for each connection"},
		{name: "ledger-key-file", set: text(&s.ledger.ClientKeyFile), usage: "its private key, in PEM"},
		{name: "lease", value: "0s", set: duration(&s.ledger.Lease, 0, 24*time.Hour), usage: "how long a claim is held unless it is renewed, 1s to 24h; 0: the policy's, 30 s by default. It is renewed at a third of it"},

		{group: "The process", name: "concurrency", value: "8", set: number(&s.concurrency, 1, 1000), usage: "how many messages are POSTed at the same time, 1 to 1000"},
		{name: "grace", value: "20s", set: duration(&s.grace, time.Second, time.Hour), usage: "how long running POSTs may take after SIGTERM or SIGINT; give the supervisor 5 s more"},
		{name: "observe-listen", value: "127.0.0.1:9465", set: text(&s.observe), usage: "where /livez, /readyz and /metrics are served, without TLS; off: nowhere"},
		{name: "log", value: "text", set: choice(&s.log, "text", "json"), usage: "the form of the log on standard error: text or json"},
	}
}

// read fills the settings from the arguments and the environment. An error names the flag or the variable at fault;
// flag.ErrHelp asks for the manual.
func (s *settings) read(arguments []string, lookup func(string) (string, bool)) error {
	flags := flag.NewFlagSet("idempotency-ledger-bridge", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	for _, o := range s.options() {
		if err := o.set(o.value); err != nil {
			return fmt.Errorf("the default of --%s: %w", o.name, err)
		}
		if value, found := lookup(o.environment()); found && value != "" {
			if err := o.set(value); err != nil {
				return fmt.Errorf("%s: %w", o.environment(), err)
			}
		}
		if o.isSwitch {
			flags.BoolFunc(o.name, o.usage, o.set)
		} else {
			flags.Func(o.name, o.usage, o.set)
		}
	}
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return errors.New("an argument is not a flag; each setting is --NAME VALUE")
	}
	return nil
}

// manual is what --help prints.
func manual() string {
	var text strings.Builder
	text.WriteString(`idempotency-ledger-bridge takes the messages of NATS JetStream or Kafka, claims each in the idempotency ledger, POSTs it to a URL
as a CloudEvent, settles the claim by the status of the answer, and acknowledges the message.

    idempotency-ledger-bridge --consumer payments --url http://127.0.0.1:8080/orders \
        --nats-url nats://127.0.0.1:4222 --nats-stream ORDERS --nats-consumer payments

Each setting is a flag, or the variable of the environment that stands next to it; the flag overrides the variable.
Exit codes: 0 stopped by a signal, everything settled; 1 the broker or the ledger refuses to go on, or POSTs still ran after
the grace; 2 a setting is at fault. docs/bridge.md has the statuses, the headers, the metrics and the limits.
`)
	for _, o := range new(settings).options() {
		if o.group != "" {
			fmt.Fprintf(&text, "\n%s\n", o.group)
		}
		value := ""
		if o.value != "" {
			value = " (default: " + o.value + ")"
		}
		fmt.Fprintf(&text, "  --%-26s %s\n        %s%s\n", o.name, o.environment(), o.usage, value)
	}
	return text.String()
}

func text(to *string) func(string) error {
	return func(value string) error {
		*to = value
		return nil
	}
}

func choice(to *string, allowed ...string) func(string) error {
	return func(value string) error {
		if !slices.Contains(allowed, value) {
			return fmt.Errorf("must be one of %s", strings.Join(slices.DeleteFunc(slices.Clone(allowed), func(each string) bool { return each == "" }), ", "))
		}
		*to = value
		return nil
	}
}

func boolean(to *bool) func(string) error {
	return func(value string) (err error) {
		*to, err = strconv.ParseBool(value)
		return err
	}
}

func duration(to *time.Duration, least, most time.Duration) func(string) error {
	return func(value string) error {
		found, err := time.ParseDuration(value)
		if err != nil || found < least || found > most {
			return fmt.Errorf("must be a duration such as 1m30s, from %v to %v", least, most)
		}
		*to = found
		return nil
	}
}

func number(to *int, least, most int) func(string) error {
	return func(value string) error {
		found, err := strconv.Atoi(value)
		if err != nil || found < least || found > most {
			return fmt.Errorf("must be a number from %d to %d", least, most)
		}
		*to = found
		return nil
	}
}

// statuses reads a list of statuses that may be terminal.
func statuses(to *[]int) func(string) error {
	return func(value string) error {
		*to = nil
		for each := range strings.SplitSeq(value, ",") {
			found, err := strconv.Atoi(strings.TrimSpace(each))
			if err != nil || found < 400 || found > 499 {
				return errors.New("must be a list of statuses from 400 to 499, separated by commas")
			}
			*to = append(*to, found)
		}
		return nil
	}
}
