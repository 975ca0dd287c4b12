// Package tests tries the guard in a file of SQLite.
package tests

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"idempotency-ledger.internal/ledger"
	"idempotency-ledger.internal/ledger/guard"
	_ "modernc.org/sqlite"
)

// claimed stands for a granted claim of a message.
type claimed struct {
	id    string
	until time.Time
}

func (c claimed) IdempotencyKey() string { return "1f15feca-771b-5c87-8f0c-36c3e92c2c95" }
func (c claimed) Token() int64           { return 7 }
func (c claimed) HoldUntil() time.Time   { return c.until }
func (c claimed) Names() (string, ledger.Key) {
	return "tests", ledger.Key{Source: "shop", ID: c.id}
}

func opened(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "guard.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	for _, statement := range []string{guard.SQLite.Table(), "CREATE TABLE payments (receipt TEXT PRIMARY KEY)"} {
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

func payments(t *testing.T, db *sql.DB) (count int) {
	t.Helper()
	if err := db.QueryRow("SELECT count(*) FROM payments").Scan(&count); err != nil {
		t.Fatal(err)
	}
	return count
}

// paying has an effect, and then ends in this way.
func paying(receipt string, err error) func(context.Context, guard.Tx) ([]byte, error) {
	return func(ctx context.Context, tx guard.Tx) ([]byte, error) {
		if _, failed := tx.ExecContext(ctx, "INSERT INTO payments (receipt) VALUES (?)", receipt); failed != nil {
			return nil, failed
		}
		return []byte(receipt), err
	}
}

func TestOnce_ARepeatReturnsTheFirstResult(t *testing.T) {
	db := opened(t)
	for _, receipt := range []string{"first", "second"} {
		result, err := guard.Once(t.Context(), db, guard.SQLite, claimed{id: "1"}, paying(receipt, nil))
		if err != nil || string(result) != "first" || payments(t, db) != 1 {
			t.Errorf("the result is %q, %v", result, err)
		}
	}
	if _, err := guard.Once(t.Context(), db, guard.SQLite, claimed{id: "another"}, paying("x", nil)); !errors.Is(err, guard.ErrWrongRow) || !errors.Is(err, ledger.ErrDoubtful) {
		t.Errorf("the row of another message is answered %v", err)
	}
}

func TestOnce_NoResultIsNotNull(t *testing.T) {
	db := opened(t)
	for range 2 {
		result, err := guard.Once(t.Context(), db, guard.SQLite, claimed{id: "1"}, func(context.Context, guard.Tx) ([]byte, error) { return nil, nil })
		if err != nil || len(result) != 0 {
			t.Errorf("the result is %q, %v", result, err)
		}
	}
}

func TestOnce_AnErrorOfTheEffectLeavesNothing(t *testing.T) {
	other := errors.New("broken")
	for _, test := range []struct {
		err  error
		want error
	}{{other, ledger.ErrRetry}, {ledger.Terminal("no"), ledger.ErrTerminal}, {ledger.ErrDoubtful, ledger.ErrDoubtful}} {
		db := opened(t)
		if _, err := guard.Once(t.Context(), db, guard.SQLite, claimed{id: "1"}, paying("x", test.err)); !errors.Is(err, test.want) || !errors.Is(err, test.err) {
			t.Errorf("%v is answered %v", test.err, err)
		}
		if payments(t, db) != 0 {
			t.Errorf("%v has left its effect behind", test.err)
		}
		if _, err := guard.Once(t.Context(), db, guard.SQLite, claimed{id: "1"}, paying("x", nil)); err != nil {
			t.Errorf("the next attempt: %v", err)
		}
	}
}

func TestOnce_AnErrorOfTheDatabaseIsUndecided(t *testing.T) {
	db := opened(t)
	if _, err := db.Exec("INSERT INTO payments VALUES ('taken')"); err != nil {
		t.Fatal(err)
	}
	_, err := guard.Once(t.Context(), db, guard.SQLite, claimed{id: "1"}, paying("taken", nil))
	if !errors.Is(err, guard.ErrUndecided) || !errors.Is(err, ledger.ErrDoubtful) || payments(t, db) != 1 {
		t.Errorf("it is answered %v", err)
	}
}

func TestOnce_NamesAMissingTable(t *testing.T) {
	db := opened(t)
	if _, err := db.Exec("DROP TABLE effect_guard"); err != nil {
		t.Fatal(err)
	}
	_, err := guard.Once(t.Context(), db, guard.SQLite, claimed{id: "1"}, paying("x", nil))
	if !errors.Is(err, guard.ErrUndecided) || !strings.Contains(err.Error(), "the database has no table effect_guard") {
		t.Errorf("it is answered %v", err)
	}
	if _, err := db.Exec(guard.SQLite.Table() + "; DROP TABLE payments"); err != nil {
		t.Fatal(err)
	}
	if _, err := guard.Once(t.Context(), db, guard.SQLite, claimed{id: "1"}, paying("x", nil)); !errors.Is(err, guard.ErrUndecided) || strings.Contains(err.Error(), "has no table effect_guard") {
		t.Errorf("without a table of the effect it is answered %v", err)
	}
}

func TestOnce_APanicRollsBack(t *testing.T) {
	db := opened(t)
	func() {
		defer func() { _ = recover() }()
		_, _ = guard.Once(t.Context(), db, guard.SQLite, claimed{id: "1"}, func(ctx context.Context, tx guard.Tx) ([]byte, error) {
			_, _ = paying("x", nil)(ctx, tx)
			panic("broken")
		})
	}()
	if _, err := guard.Once(t.Context(), db, guard.SQLite, claimed{id: "1"}, paying("y", nil)); err != nil || payments(t, db) != 1 {
		t.Errorf("after a panic: %v", err)
	}
}

func TestOnce_NothingBeginsAfterTheHold(t *testing.T) {
	db := opened(t)
	_, err := guard.Once(t.Context(), db, guard.SQLite, claimed{"1", time.Now()}, paying("x", nil))
	if !errors.Is(err, guard.ErrUndecided) || payments(t, db) != 0 {
		t.Errorf("it is answered %v", err)
	}
}

func TestOnce_ALostClaimIsItsReason(t *testing.T) {
	db := opened(t)
	ctx, lose := context.WithCancelCause(t.Context())
	_, err := guard.Once(ctx, db, guard.SQLite, claimed{id: "1"}, func(ctx context.Context, tx guard.Tx) ([]byte, error) {
		lose(&ledger.ClaimLostError{Reason: "LEASE_LOST"})
		return paying("x", nil)(ctx, tx)
	})
	if !errors.Is(err, guard.ErrUndecided) || err.(*ledger.SteerError).Error()[:24] != "ledger: Doubtful: LEASE_" || payments(t, db) != 0 {
		t.Errorf("it is answered %v", err)
	}
}

func TestOnce_WithoutADialect(t *testing.T) {
	var invalid *ledger.InvalidFieldError
	if _, err := guard.Once(t.Context(), opened(t), guard.Dialect{}, claimed{id: "1"}, paying("x", nil)); !errors.As(err, &invalid) {
		t.Errorf("it is answered %v", err)
	}
}
