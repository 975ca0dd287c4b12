// Program rabbitmq is a consumer of RabbitMQ.
package main

import (
	"context"

	"brokers.example/consumers/handler"
	amqp "github.com/rabbitmq/amqp091-go"
	"idempotency-ledger.internal/ledger"
	"idempotency-ledger.internal/ledger/rabbitmqledger"
)

func main() {
	c := handler.Start()
	connection, err := amqp.Dial(c.Broker)
	handler.Done(err)
	handler.Done(rabbitmqledger.Consumer{
		Ledger: c.Ledger, Connection: connection, Queue: "orders", Concurrency: 4,
		Handler: func(_ context.Context, claim *ledger.Claim, message amqp.Delivery) ([]byte, error) {
			return c.Pay(claim, message.Body)
		},
	}.Run(c.Stop))
	c.Finish()
	handler.Done(connection.Close())
}
