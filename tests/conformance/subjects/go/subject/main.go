// Program subject is the subject of clients/go.
package main

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"idempotency-ledger.internal/ledger"
	"subjects/wire"
)

var (
	ledgers = map[string]*ledger.Ledger{}
	cancels = map[string]context.CancelFunc{}
	running sync.WaitGroup
)

func seconds(number float64) time.Duration { return time.Duration(number * float64(time.Second)) }

func open(command wire.Command) {
	options := ledger.Options{
		Lease: seconds(command.Lease), RepeatAnnounced: command.RepeatAnnounced,
		ClientCertFile: command.ClientCertFile, ClientKeyFile: command.ClientKeyFile,
	}
	if command.Endpoint != nil {
		options.Endpoint = *command.Endpoint
	}
	opened, err := ledger.New(command.Consumer, options)
	if err != nil {
		wire.Failed("open", err)
		return
	}
	ledgers[command.Ledger] = opened
	wire.Say("opened", nil)
}

func process(command wire.Command) {
	ctx, cancel := context.WithCancel(context.Background())
	cancels[command.Call] = cancel
	l := ledgers[command.Ledger]
	options := []ledger.DeliveryOption{ledger.Wait(seconds(command.Wait))}
	if command.Body != nil {
		options = append(options, ledger.Body([]byte(*command.Body)))
	}
	running.Go(func() {
		key := ledger.Key{Source: command.Source, ID: command.ID}
		outcome, err := ledger.Process(ctx, l, key, handler(command), options...)
		switch {
		case err == nil:
			wire.Finished(command.Call, outcome)
		case !errors.Is(err, context.Canceled):
			wire.Failed(command.Call, err)
		}
	})
}

// closing waits until a delivery is not taken: nothing is sent for a caller that is gone before.
func closing(l *ledger.Ledger) {
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	for {
		if _, _, err := l.Begin(gone, ledger.Key{Source: "shop", ID: "none"}); errors.Is(err, ledger.ErrClosed) {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func closed(command wire.Command) {
	l := ledgers[command.Ledger]
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), seconds(command.Grace))
		defer cancel()
		wire.Say("closed", wire.Fields{"ended": l.Close(ctx) == nil})
	}()
	closing(l)
	wire.Say("closing", nil)
}

func shutdown(command wire.Command) {
	stop := ledger.ShutdownContext(seconds(command.Grace))
	go func() {
		<-stop.Done()
		wire.Say("stopping", nil)
		for _, l := range ledgers {
			_ = l.Close(context.Background()) // The deliveries that still run are waited for.
		}
		running.Wait()
		os.Exit(0)
	}()
}

func main() {
	wire.Say("ready", wire.Fields{"forks": false, "forks_after_use": false, "cancels": true, "inbox": true})
	wire.Commands(func(command wire.Command) {
		switch command.Do {
		case "open":
			open(command)
		case "process":
			process(command)
		case "store":
			go store(command)
		case "work":
			go work(command)
		case "go":
			wire.Going(command.Call) <- struct{}{}
		case "cancel":
			// The caller is cancelled, and not its handler: where one runs, Process returns with it.
			cancels[command.Call]()
			wire.Say("cancelled", wire.Fields{"call": command.Call})
		case "serve":
			serve(command)
		case "close":
			closed(command)
		case "shutdown":
			shutdown(command)
		}
	})
}
