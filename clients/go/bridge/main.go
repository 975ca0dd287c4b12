// Program idempotency-ledger-bridge takes the messages of NATS JetStream or Kafka, claims each in the ledger, POSTs it to a
// URL as a CloudEvent, settles the claim by the status of the answer, and acknowledges the message: a handler in any language
// needs no line for the ledger. docs/bridge.md has the statuses, the settings and the limits.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"idempotency-ledger.internal/ledger"
)

const (
	stopped = 0 // by a signal; everything is settled
	failed  = 1
	wrong   = 2 // a setting is at fault
	// closing is how long the process may take beyond the grace, to settle and to acknowledge.
	closing = 3 * time.Second
)

func main() { os.Exit(start(os.Args[1:], os.LookupEnv, os.Stdout, os.Stderr)) }

// start runs the process, and returns its exit code.
func start(arguments []string, lookup func(string) (string, bool), out, log io.Writer) int {
	s := &settings{}
	err := s.read(arguments, lookup)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(out, manual())
		return stopped
	}
	if err == nil {
		err = s.check()
	}
	if err != nil {
		fmt.Fprintf(log, "idempotency-ledger-bridge: %v\n(--help has all settings)\n", err)
		return wrong
	}
	var form slog.Handler = slog.NewTextHandler(log, nil)
	if s.log == "json" {
		form = slog.NewJSONHandler(log, nil)
	}
	logger := slog.New(form)
	b, err := newBridge(s, logger)
	if err != nil {
		fmt.Fprintf(log, "idempotency-ledger-bridge: %v\n(--help has all settings)\n", err)
		return wrong
	}
	if s.timeout > s.grace {
		logger.Warn("a POST may take longer than the grace: a stop may cut it, and its effect is unknown then; raise grace, or lower timeout",
			"timeout", s.timeout, "grace", s.grace)
	}
	source := b.fromKafka
	if s.nats.url != "" {
		source = b.fromNATS
	}
	if err := b.run(ledger.ShutdownContext(s.grace+closing), source); err != nil {
		logger.Error("the bridge ends", "error", err)
		return failed
	}
	logger.Info("stopped: everything that had begun is settled")
	return stopped
}

// bridge is the process.
type bridge struct {
	settings *settings
	logger   *slog.Logger
	client   *ledger.Ledger
	metrics  *metrics
	health   *health
	poster   *poster
}

func newBridge(s *settings, logger *slog.Logger) (*bridge, error) {
	b := &bridge{settings: s, logger: logger, metrics: newMetrics()}
	s.ledger.Logger = logger
	var err error
	if b.client, err = ledger.New(s.consumer, s.ledger); err != nil {
		return nil, named(err)
	}
	b.poster, err = newPoster(s, b.metrics, logger)
	return b, err
}

// run takes deliveries from the source until the context ends, and returns nil when those that have begun are settled.
func (b *bridge) run(stop context.Context, source func(context.Context) error) error {
	b.health = &health{stop: stop}
	if b.settings.observe != "off" {
		end, err := serve(b.settings.observe, b.metrics, b.health)
		if err != nil {
			return fmt.Errorf("--observe-listen: %w", err)
		}
		defer end()
	}
	b.logger.Info("started", "consumer", b.settings.consumer, "pid", os.Getpid())
	err := source(stop)
	ending, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	return errors.Join(err, b.client.Close(ending))
}
