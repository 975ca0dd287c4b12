package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	"idempotency-ledger.internal/ledger"
	"idempotency-ledger.internal/ledger/kafkaledger"
	"idempotency-ledger.internal/ledger/natsledger"
)

const (
	askWait      = 10 * time.Second
	lagEvery     = 15 * time.Second
	heartbeatMax = 3 * time.Second // Kafka's default
)

// fromNATS takes messages of a pull consumer of JetStream until the context ends.
func (b *bridge) fromNATS(ctx context.Context) error {
	options, err := b.settings.nats.options()
	if err != nil {
		return err
	}
	options = append(options, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		b.logger.Warn("NATS reports an error", "error", err)
	}))
	connection, err := nats.Connect(b.settings.nats.url, options...)
	if err != nil {
		return fmt.Errorf("--nats-url: %w", err)
	}
	defer connection.Close()
	stream, err := jetstream.New(connection)
	if err != nil {
		return err
	}
	asking, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	consumer, err := stream.Consumer(asking, b.settings.nats.stream, b.settings.nats.consumer)
	if err != nil {
		return fmt.Errorf("--nats-stream, --nats-consumer: %w", err)
	}
	takes := natsledger.Consumer{
		Ledger: b.client, Source: consumer, Concurrency: b.settings.concurrency, Grace: b.settings.grace, Logger: b.logger,
		Observe: b.metrics.delivered,
		Handler: func(ctx context.Context, claim *ledger.Claim, delivered jetstream.Msg) ([]byte, error) {
			return b.poster.post(ctx, claim, ofNATS(delivered))
		},
	}
	if subject := b.settings.nats.deadLetters; subject != "" {
		takes.DeadLetter = natsledger.ToSubject(stream, subject)
	}
	connected := connection.IsConnected
	b.health.ready.Store(&connected)
	go b.watchLag(ctx, consumer)
	return takes.Run(ctx)
}

// options are those of the connection, which is tried again as long as the process runs.
func (n *natsSettings) options() ([]nats.Option, error) {
	options := []nats.Option{nats.Name(agent), nats.MaxReconnects(-1)}
	if n.credentials != "" {
		options = append(options, nats.UserCredentials(n.credentials))
	}
	if n.tls != (files{}) {
		secured, err := n.tls.config()
		if err != nil {
			return nil, err
		}
		options = append(options, nats.Secure(secured))
	}
	return options, nil
}

// watchLag asks JetStream again and again how many messages are not acknowledged.
func (b *bridge) watchLag(ctx context.Context, consumer jetstream.Consumer) {
	ticker := time.NewTicker(lagEvery)
	defer ticker.Stop()
	for {
		asking, cancel := context.WithTimeout(ctx, askWait)
		info, err := consumer.Info(asking)
		cancel()
		if err != nil {
			b.metrics.behind(-1)
		} else {
			b.metrics.behind(int64(info.NumPending) + int64(info.NumAckPending))
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// fromKafka takes messages of a topic until the context ends.
func (b *bridge) fromKafka(ctx context.Context) error {
	k := &b.settings.kafka
	options, err := k.options()
	if err != nil {
		return err
	}
	return kafkaledger.Consumer{
		Ledger: b.client, Topic: k.topic, Group: k.group, Retry: k.retries, DeadLetters: k.deadLetters,
		Options: append(options, kgo.WithHooks(&joined{health: b.health})), Concurrency: b.settings.concurrency,
		Grace: b.settings.grace, Logger: b.logger, Observe: b.metrics.delivered,
		Handler: func(ctx context.Context, claim *ledger.Claim, delivered *kgo.Record) ([]byte, error) {
			return b.poster.post(ctx, claim, ofKafka(delivered))
		},
	}.Run(ctx)
}

// options are those of the client of Kafka.
func (k *kafkaSettings) options() ([]kgo.Opt, error) {
	var seeds []string
	for each := range strings.SplitSeq(k.brokers, ",") {
		seeds = append(seeds, strings.TrimSpace(each))
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(seeds...), kgo.ClientID(agent), kgo.SessionTimeout(k.session),
		kgo.HeartbeatInterval(min(k.session/4, heartbeatMax)),
	}
	if k.secured || k.tls != (files{}) {
		secured, err := k.tls.config()
		if err != nil {
			return nil, err
		}
		options = append(options, kgo.DialTLSConfig(secured))
	}
	if k.sasl != "" {
		options = append(options, kgo.SASL(k.mechanism()))
	}
	return options, nil
}

// mechanism reads the password for each connection.
func (k *kafkaSettings) mechanism() sasl.Mechanism {
	user := func() (scram.Auth, error) {
		password, err := secret(k.password)
		return scram.Auth{User: k.user, Pass: password}, err
	}
	switch k.sasl {
	case "scram-sha-256":
		return scram.Sha256(func(context.Context) (scram.Auth, error) { return user() })
	case "scram-sha-512":
		return scram.Sha512(func(context.Context) (scram.Auth, error) { return user() })
	}
	return plain.Plain(func(context.Context) (plain.Auth, error) {
		found, err := user()
		return plain.Auth{User: found.User, Pass: found.Pass}, err
	})
}

// joined notices that the group has given this member its partitions, which may be none.
type joined struct{ health *health }

// OnBrokerE2E implements kgo.HookBrokerE2E.
func (j *joined) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, e2e kgo.BrokerE2E) {
	if key == kmsg.SyncGroup.Int16() && e2e.Err() == nil {
		always := func() bool { return true }
		j.health.ready.Store(&always)
	}
}
