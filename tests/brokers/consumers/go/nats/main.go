// Program nats is a consumer of NATS JetStream.
package main

import (
	"context"

	"brokers.example/consumers/handler"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"idempotency-ledger.internal/ledger"
	"idempotency-ledger.internal/ledger/natsledger"
)

func main() {
	c := handler.Start()
	connection, err := nats.Connect(c.Broker)
	handler.Done(err)
	stream, err := jetstream.New(connection)
	handler.Done(err)
	orders, err := stream.Consumer(context.Background(), "ORDERS", "payments")
	handler.Done(err)
	handler.Done(natsledger.Consumer{
		Ledger: c.Ledger, Source: orders, DeadLetter: natsledger.ToSubject(stream, "dead"), Concurrency: 4,
		Handler: func(_ context.Context, claim *ledger.Claim, message jetstream.Msg) ([]byte, error) {
			return c.Pay(claim, message.Data())
		},
	}.Run(c.Stop))
	c.Finish()
	connection.Close()
}
