// Package guard has an effect that is rows in your own SQL database once: a guard row and the effect commit together, or not at
// all.
//
// [Once] is called inside of a handler. The table effect_guard is made by [Dialect.Table], which are the files sqlite.sql,
// postgres.sql and mysql.sql of this folder, in the database that the effects are in. docs/effects.md of the ledger has the
// reasons, and what a guard does not promise: nothing outside of that database, and nothing after the guard row was deleted.
package guard

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"time"

	"idempotency-ledger.internal/ledger"
	"idempotency-ledger.internal/ledger/internal/logged"
)

var (
	// ErrUndecided: it is unknown here whether the effect happened, and the next attempt learns it from the guard. Return it:
	// nothing is settled, and the message is delivered again.
	ErrUndecided = errors.New("guard: it is unknown whether the effect happened")
	// ErrWrongRow: the guard row is that of another message, has no result, or is gone: something else writes the table, names
	// are cut or folded, or the effect has ended the guard's transaction. Nothing is settled; stop, and let a person look.
	ErrWrongRow = errors.New("guard: the guard row is not that of this message")
)

// silence is how long a statement of the guard may take. They do not end with the loss of the claim: whatever attempt
// commits first has the effect, once, and a COMMIT that was cancelled would leave that unknown.
const silence = 10 * time.Second

const (
	insert = "INSERT INTO effect_guard (idempotency_key, replay_run, consumer, source, id, token) VALUES (?, ?, ?, ?, ?, ?)"
	keep   = "UPDATE effect_guard SET result = ? WHERE idempotency_key = ? AND replay_run = ?"
	read   = "SELECT consumer, source, id, result, result IS NOT NULL FROM effect_guard WHERE idempotency_key = ? AND replay_run = ?"
)

// Claim is what a guard reads of a claim: a [*ledger.Claim] has it.
type Claim interface {
	IdempotencyKey() string
	Token() int64
	HoldUntil() time.Time
	Names() (consumer string, key ledger.Key)
}

// Tx is the guard's transaction, as an effect sees it: what code made by sqlc takes, for example.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Once has the effect unless an attempt has had it before; it returns the result of the attempt that had it.
//
// db is a pool in the database of the dialect, for guards alone: in MySQL its sessions keep a lock wait of 2 s and strict
// mode, in SQLite its connections keep a busy timeout of 2 s. A statement waits 2 s at most for a row of another
// transaction. The effect writes by tx alone, neither begins nor ends a transaction, hides no error of the database, and
// returns the result. ctx is that of the handler.
//
// Errors are [ErrUndecided] and [ErrWrongRow], by which nothing is settled, and what the effect returns after a rollback, so
// that it has certainly not happened: steering errors as they are, and any other one within a [ledger.Retry]. Return each of
// them from the handler. Of an error that became one of these by the guard the type is logged.
func Once(
	ctx context.Context, db *sql.DB, dialect Dialect, claim Claim, effect func(ctx context.Context, tx Tx) ([]byte, error),
) ([]byte, error) {
	if dialect.begin == "" {
		return nil, &ledger.InvalidFieldError{Field: "dialect", Bound: "must be Postgres, MySQL or SQLite"}
	}
	connection, err := db.Conn(ctx)
	if err != nil {
		return nil, interrupted(ctx, err)
	}
	defer connection.Close()
	t := &transaction{base: context.WithoutCancel(ctx), connection: connection, dialect: dialect, claim: claim}
	defer t.rollBack()
	return t.once(ctx, effect)
}

type transaction struct {
	base       context.Context
	connection *sql.Conn
	dialect    Dialect
	claim      Claim
	open       bool
	// failed are the errors of the database that the effect was given.
	failed []error
}

func (t *transaction) once(ctx context.Context, effect func(context.Context, Tx) ([]byte, error)) ([]byte, error) {
	for _, statement := range t.dialect.before {
		if _, err := t.exec(statement); err != nil {
			return nil, undecided(err)
		}
	}
	// Until then an older attempt may begin, and its guard row is kept; later it may have been deleted.
	if end := t.claim.HoldUntil(); !end.IsZero() && !time.Now().Before(end) {
		return nil, doubt("the hold of the claim is over", &logged.Error{Err: ErrUndecided})
	}
	t.open = true // Also where its answer is lost.
	if _, err := t.exec(t.dialect.begin); err != nil {
		return nil, undecided(err)
	}
	if t.dialect.within != "" {
		if _, err := t.exec(t.dialect.within); err != nil {
			return nil, undecided(err)
		}
	}
	inserted, insertion := t.inserted()
	if !inserted {
		return t.doneBefore(insertion)
	}
	result, err := effect(ctx, effectTx{t})
	if err != nil {
		return nil, t.notHappened(ctx, err)
	}
	return t.committed(result)
}

// inserted reports whether the guard row is new. While another transaction has the row and did not commit, it waits: not for
// ever.
func (t *transaction) inserted() (bool, error) {
	consumer, key := t.claim.Names()
	found, err := t.exec(t.dialect.sql(insert+t.dialect.conflict),
		t.claim.IdempotencyKey(), key.ReplayRun, consumer, key.Source, key.ID, t.claim.Token())
	if err != nil {
		return false, err
	}
	rows, err := found.RowsAffected()
	return rows == 1, err
}

// doneBefore is the result of the attempt that had the effect, if the guard row is that of this very message. insertion is the
// error of the insert; nil where the database reports no error for a row that is there. A row that is read is committed,
// whatever the error was.
func (t *transaction) doneBefore(insertion error) ([]byte, error) {
	consumer, key := t.claim.Names()
	var stored struct {
		consumer, source, id, result []byte
		has                          bool // Drivers read an empty result as nil, too.
	}
	ctx, cancel := context.WithTimeout(t.base, silence)
	defer cancel()
	err := t.connection.QueryRowContext(ctx, t.dialect.sql(read), t.claim.IdempotencyKey(), key.ReplayRun).
		Scan(&stored.consumer, &stored.source, &stored.id, &stored.result, &stored.has)
	switch {
	case err != nil && insertion != nil:
		return nil, undecided(insertion)
	case errors.Is(err, sql.ErrNoRows):
		return nil, doubt("the guard row was deleted this very moment", &logged.Error{Err: ErrUndecided})
	case err != nil:
		return nil, undecided(err)
	case !bytes.Equal(stored.consumer, []byte(consumer)), !bytes.Equal(stored.source, []byte(key.Source)), !bytes.Equal(stored.id, []byte(key.ID)):
		return nil, wrong("the guard row is that of another message")
	case !stored.has:
		return nil, wrong("the guard row has no result: it was committed without its effect")
	}
	return stored.result, nil
}

// notHappened is the error of an effect that is rolled back.
func (t *transaction) notHappened(ctx context.Context, err error) error {
	for _, failed := range t.failed {
		if errors.Is(err, failed) {
			return interrupted(ctx, err)
		}
	}
	var steer *ledger.SteerError
	if errors.As(err, &steer) {
		return err
	}
	return ledger.Retry(fmt.Sprintf("%T", err)).Because(&logged.Error{Err: err})
}

func (t *transaction) committed(result []byte) ([]byte, error) {
	_, key := t.claim.Names()
	if result == nil {
		result = []byte{} // Which is not NULL.
	}
	kept, err := t.exec(t.dialect.sql(keep), result, t.claim.IdempotencyKey(), key.ReplayRun)
	if err != nil {
		return nil, undecided(err)
	}
	rows, err := kept.RowsAffected()
	if err != nil {
		return nil, undecided(err)
	}
	if rows != 1 {
		return nil, wrong("the guard row is gone: the effect has ended the guard's transaction")
	}
	if _, err := t.exec("COMMIT"); err != nil { // It is unknown whether it did.
		return nil, undecided(err)
	}
	t.open = false
	return result, nil
}

// rollBack ends what is open. A connection that cannot do that is closed, so that the server rolls back.
func (t *transaction) rollBack() {
	if !t.open {
		return
	}
	if _, err := t.exec("ROLLBACK"); err != nil {
		_ = t.connection.Raw(func(any) error { return driver.ErrBadConn })
	}
}

// exec carries out a statement of the guard.
func (t *transaction) exec(query string, args ...any) (sql.Result, error) {
	ctx, cancel := context.WithTimeout(t.base, silence)
	defer cancel()
	return t.connection.ExecContext(ctx, query, args...)
}

// undecided is a wait that was too long, a deadlock, a lost connection, a COMMIT without an answer.
func undecided(err error) error {
	reason := fmt.Sprintf("%T of the database", err)
	if noTable(err) {
		reason = "the database has no table effect_guard; run Table() of the dialect in it"
	}
	return doubt(reason, fmt.Errorf("%w: %w", ErrUndecided, &logged.Error{Err: err}))
}

// interrupted is the same of a statement that ends with the context of the handler: the loss of the claim may be its reason.
func interrupted(ctx context.Context, err error) error {
	var lost *ledger.ClaimLostError
	if errors.As(context.Cause(ctx), &lost) {
		return doubt(lost.Reason, fmt.Errorf("%w: %w", ErrUndecided, err))
	}
	return undecided(err)
}

func doubt(reason string, cause error) error { return ledger.Doubtful(reason).Because(cause) }

func wrong(reason string) error { return doubt(reason, &logged.Error{Err: ErrWrongRow}) }

// noTable reports whether the database says that it has no table effect_guard: SQLite, Postgres, or MySQL and MariaDB.
func noTable(err error) bool {
	text := err.Error()
	return strings.Contains(text, "effect_guard") && (strings.Contains(text, "no such table") ||
		strings.Contains(text, "does not exist") || strings.Contains(text, "doesn't exist"))
}

// effectTx notes the errors of the database that an effect is given.
type effectTx struct{ *transaction }

func (t effectTx) noted(err error) error {
	if err != nil {
		t.failed = append(t.failed, err)
	}
	return err
}

func (t effectTx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	found, err := t.connection.ExecContext(ctx, query, args...)
	return found, t.noted(err)
}

func (t effectTx) PrepareContext(ctx context.Context, query string) (*sql.Stmt, error) {
	found, err := t.connection.PrepareContext(ctx, query)
	return found, t.noted(err)
}

func (t effectTx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	found, err := t.connection.QueryContext(ctx, query, args...)
	return found, t.noted(err)
}

func (t effectTx) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	found := t.connection.QueryRowContext(ctx, query, args...)
	_ = t.noted(found.Err())
	return found
}
