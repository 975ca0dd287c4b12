package main

import (
	"context"

	"idempotency-ledger.internal/ledger"
	"subjects/wire"
)

func store(command wire.Command) {
	message := ledger.Message{Payload: wire.Step{Bytes: command.Bytes}.Content(command.Payload)}
	for name, value := range command.Headers {
		message.Headers = append(message.Headers, ledger.Header{Name: name, Value: []byte(value)})
	}
	key := ledger.Key{Source: command.Source, ID: command.ID}
	outcome, err := ledgers[command.Ledger].Store(context.Background(), key, message)
	if err != nil {
		wire.Failed(command.Call, err)
		return
	}
	wire.Finished(command.Call, outcome)
}

func work(command wire.Command) {
	err := ledger.Work(context.Background(), ledgers[command.Ledger],
		func(ctx context.Context, claim *ledger.Claim, message ledger.StoredMessage) ([]byte, error) {
			headers := map[string]string{}
			for _, header := range message.Headers {
				headers[header.Name] = string(header.Value)
			}
			id := message.Key.ID
			wire.Say("handed", wire.Fields{"call": id, "payload": string(message.Payload), "headers": headers})
			delivery := wire.Command{Call: id, ID: id, Steps: command.Steps}
			if steps, named := command.StepsOf[id]; named {
				delivery.Steps = steps
			}
			return handler(delivery)(ctx, claim)
		}, ledger.WorkOptions{Concurrency: command.Concurrency})
	wire.Say("worked", wire.Fields{"ended": err == nil})
}
