// Program redis is a consumer of Redis Streams.
package main

import (
	"context"

	"brokers.example/consumers/handler"
	"github.com/redis/go-redis/v9"
	"idempotency-ledger.internal/ledger"
	"idempotency-ledger.internal/ledger/redisledger"
)

func main() {
	c := handler.Start()
	options, err := redis.ParseURL(c.Broker)
	handler.Done(err)
	connection := redis.NewClient(options)
	handler.Done(redisledger.Consumer{
		Ledger: c.Ledger, Redis: connection, Stream: "orders", Visibility: handler.Wait(), Concurrency: 4,
		Handler: func(_ context.Context, claim *ledger.Claim, entry redis.XMessage) ([]byte, error) {
			return c.Pay(claim, []byte(entry.Values["data"].(string)))
		},
	}.Run(c.Stop))
	c.Finish()
	handler.Done(connection.Close())
}
