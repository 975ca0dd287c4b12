package handler

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"idempotency-ledger.internal/ledger"
	"idempotency-ledger.internal/ledger/kafkaledger"
)

// Kafka consumes a topic of Kafka. retry is the topic of messages that come later; empty: their partitions wait.
func Kafka(retry string) {
	c := Start()
	Done(kafkaledger.Consumer{
		Ledger: c.Ledger, Topic: "orders", Retry: retry, Concurrency: 4,
		Options: []kgo.Opt{
			kgo.SeedBrokers(c.Broker), kgo.SessionTimeout(Wait()), kgo.HeartbeatInterval(250 * time.Millisecond),
		},
		Handler: func(_ context.Context, claim *ledger.Claim, message *kgo.Record) ([]byte, error) {
			return c.Pay(claim, message.Value)
		},
	}.Run(c.Stop))
	c.Finish()
}
