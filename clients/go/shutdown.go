package ledger

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// ShutdownContext returns a context that ends with the first SIGTERM or SIGINT, or with the first of the signals that are
// given. A second one, or the end of the grace after the first, ends the process with the code 1, whatever it is doing.
//
// After the context has ended: take no new message, and call [Ledger.Close], which waits for running effects; then let the
// process end. Give the supervisor a longer time than the grace.
func ShutdownContext(grace time.Duration, signals ...os.Signal) context.Context {
	if len(signals) == 0 {
		signals = []os.Signal{syscall.SIGTERM, syscall.SIGINT}
	}
	ctx, cancel := context.WithCancel(context.Background())
	arrived := make(chan os.Signal, 2)
	signal.Notify(arrived, signals...)
	go func() {
		<-arrived
		cancel()
		select {
		case <-arrived:
		case <-time.After(grace):
		}
		os.Exit(1)
	}()
	return ctx
}
