// Program guarded is a subject whose effect is a row in a SQL database, behind the package's guard: the step `effect` is its
// transaction.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"net/url"
	"os"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	"idempotency-ledger.internal/ledger"
	"idempotency-ledger.internal/ledger/guard"
	_ "modernc.org/sqlite"
	"subjects/wire"
)

// connect opens the database, and returns the statement of a payment.
func connect(text string) (*sql.DB, guard.Dialect, string) {
	parts, err := url.Parse(text)
	if err != nil {
		log.Fatal(err)
	}
	driver, source, dialect, values := "pgx", text, guard.Postgres, "($1, $2, $3, $4)"
	switch parts.Scheme {
	case "sqlite":
		driver, source, dialect, values = "sqlite", parts.Opaque+parts.Path, guard.SQLite, "(?, ?, ?, ?)"
	case "mysql":
		driver, dialect, values = "mysql", guard.MySQL, "(?, ?, ?, ?)"
		source = fmt.Sprintf("%s@unix(%s)%s", parts.User.Username(), parts.Query().Get("unix_socket"), parts.Path)
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		log.Fatal(err)
	}
	return db, dialect, "INSERT INTO payments (receipt, source, id, amount) VALUES " + values
}

func main() {
	db, dialect, pay := connect(os.Getenv("DATABASE_URL"))
	var l *ledger.Ledger
	process := func(command wire.Command) {
		receipt := []byte(fmt.Sprintf("%s-%d", command.Call, os.Getpid()))
		effect := func(ctx context.Context, tx guard.Tx) ([]byte, error) {
			if _, err := tx.ExecContext(ctx, pay, string(receipt), "shop", command.ID, 1); err != nil {
				return nil, err
			}
			wire.Say("effect", wire.Fields{"call": command.Call, "id": command.ID, "token": "0", "idempotency_key": command.ID}) // Amid the transaction.
			<-wire.Going(command.Call)
			return receipt, nil
		}
		handle := func(ctx context.Context, claim *ledger.Claim) ([]byte, error) {
			wire.Started(claim, command.Call)
			return guard.Once(ctx, db, dialect, claim, effect)
		}
		outcome, err := ledger.Process(context.Background(), l, ledger.Key{Source: "shop", ID: command.ID}, handle,
			ledger.Wait(time.Duration(command.Wait*float64(time.Second))))
		if err != nil {
			wire.Failed(command.Call, err)
			return
		}
		wire.Finished(command.Call, outcome)
	}
	wire.Say("ready", nil)
	wire.Commands(func(command wire.Command) {
		switch command.Do {
		case "open":
			var err error
			if l, err = ledger.New(command.Consumer, ledger.Options{Endpoint: *command.Endpoint}); err != nil {
				log.Fatal(err)
			}
			wire.Say("opened", nil)
		case "process":
			go process(command)
		case "go":
			wire.Going(command.Call) <- struct{}{}
		}
	})
}
