// Package handler is what each consumer in Go does with a message: an effect in three sinks, or a failure of a poisonous
// one. The sinks are those of examples/consumer/sinks.py.
package handler

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"time"

	"idempotency-ledger.internal/ledger"
	_ "modernc.org/sqlite" // the driver
)

const (
	effect = 20 * time.Millisecond // long enough for a kill to hit it; a message may say another time
	grace  = 10 * time.Second
)

const schema = `
CREATE TABLE IF NOT EXISTS plain (id TEXT);
CREATE TABLE IF NOT EXISTS fenced (id TEXT PRIMARY KEY, token INTEGER);
CREATE TABLE IF NOT EXISTS refused (id TEXT, token INTEGER);
CREATE TABLE IF NOT EXISTS deduplicating (key TEXT PRIMARY KEY, id TEXT);
`

// Consumer is the process of one consumer.
type Consumer struct {
	// Broker is the broker's URL.
	Broker string
	// Stop ends when the process is asked to stop.
	Stop context.Context
	// Ledger is the client.
	Ledger *ledger.Ledger
	sinks  *sql.DB
}

// Start makes the consumer. From then on the test may ask the process to stop.
func Start() *Consumer {
	broker := flag.String("broker", "", "the broker's URL")
	address := flag.String("ledger", "", "the ledger's address")
	sinks := flag.String("sinks", "", "the file of the sinks")
	flag.Parse()
	c := &Consumer{Broker: *broker, Stop: ledger.ShutdownContext(grace)}
	fmt.Printf("%d consumes\n", os.Getpid())
	c.Ledger = ledger.Must(ledger.New("payments", ledger.Options{Endpoint: *address}))
	database, err := sql.Open("sqlite", "file:"+*sinks+"?_pragma=busy_timeout(10000)")
	Done(err)
	_, err = database.Exec(schema)
	Done(err)
	c.sinks = database
	return c
}

// Wait is the time until the broker gives to another consumer what this one holds: its session, or the acknowledgement wait.
func Wait() time.Duration {
	wait, err := time.ParseDuration(os.Getenv("BROKER_WAIT") + "s")
	Done(err)
	return wait
}

// Finish closes the client, and ends the process.
func (c *Consumer) Finish() {
	Done(c.Ledger.Close(context.Background()))
}

// Done ends the process with an error, if there is one.
func Done(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// Pay has the effect of a message.
func (c *Consumer) Pay(claim *ledger.Claim, body []byte) ([]byte, error) {
	var event struct {
		ID, Type string
		Takes    int64 // ms
	}
	if err := json.Unmarshal(body, &event); err != nil {
		return nil, err
	}
	if event.Type == "poison" {
		return nil, ledger.Retry("this message cannot be processed")
	}
	if err := c.write("INSERT INTO plain VALUES (?)", event.ID); err != nil {
		return nil, err
	}
	time.Sleep(cmp.Or(time.Duration(event.Takes)*time.Millisecond, effect))
	written, err := c.sinks.Exec("INSERT INTO fenced VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET token = excluded.token"+
		" WHERE excluded.token >= token", event.ID, claim.Token())
	if err != nil {
		return nil, err
	}
	if count, err := written.RowsAffected(); err != nil {
		return nil, err
	} else if count == 0 {
		if err := c.write("INSERT INTO refused VALUES (?, ?)", event.ID, claim.Token()); err != nil {
			return nil, err
		}
	}
	if err := c.write("INSERT OR IGNORE INTO deduplicating VALUES (?, ?)", claim.IdempotencyKey(), event.ID); err != nil {
		return nil, err
	}
	time.Sleep(effect)
	return []byte("done"), nil
}

func (c *Consumer) write(statement string, values ...any) error {
	_, err := c.sinks.Exec(statement, values...)
	return err
}
