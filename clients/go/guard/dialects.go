package guard

import (
	_ "embed"
	"strconv"
	"strings"
)

//go:embed postgres.sql
var postgresTable string

//go:embed mysql.sql
var mysqlTable string

//go:embed sqlite.sql
var sqliteTable string

// Dialect is what differs between the databases that a guard may be in: [Postgres], [MySQL] or [SQLite].
type Dialect struct {
	table string
	// before are the statements that bound the waits of the session.
	before []string
	begin  string
	// within is the statement that bounds the waits of the transaction.
	within string
	// conflict follows the insert, so that the database reports no error for a duplicate; empty where it reports one.
	conflict string
	numbered bool
}

var (
	// Postgres is READ COMMITTED: a conflict is seen and then read, though it was committed after this transaction began. A
	// statement ends after 10 s, and so does a transaction of a process that stands still.
	Postgres = Dialect{
		table: postgresTable,
		begin: "BEGIN ISOLATION LEVEL READ COMMITTED",
		within: "SELECT set_config('lock_timeout', '2s', true), set_config('statement_timeout', '10s', true)," +
			" set_config('idle_in_transaction_session_timeout', '10s', true)",
		conflict: " ON CONFLICT (idempotency_key, replay_run) DO NOTHING",
		numbered: true,
	}
	// MySQL is MySQL and MariaDB: a plain INSERT, whose error for a duplicate ends the statement alone. INSERT IGNORE would
	// hide values that are cut, and the count of ON DUPLICATE KEY UPDATE depends on a flag of the connection.
	MySQL = Dialect{
		table: mysqlTable,
		before: []string{
			"SET SESSION innodb_lock_wait_timeout = 2",
			// A name that is too long is an error, and not cut.
			"SET SESSION sql_mode = CONCAT(@@SESSION.sql_mode, ',STRICT_ALL_TABLES')",
			"SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
		},
		begin: "START TRANSACTION",
	}
	// SQLite is BEGIN IMMEDIATE: the one lock of writers is taken, or waited for, before anything is read.
	SQLite = Dialect{
		table:    sqliteTable,
		before:   []string{"PRAGMA busy_timeout = 2000"},
		begin:    "BEGIN IMMEDIATE",
		conflict: " ON CONFLICT (idempotency_key, replay_run) DO NOTHING",
	}
)

// Table is the SQL that makes the table effect_guard, with the reasons of its types and the statement that deletes old rows:
// run it by the migrations of your service.
func (d Dialect) Table() string { return d.table }

// sql is a statement whose `?` are as the database takes them.
func (d Dialect) sql(text string) string {
	if !d.numbered {
		return text
	}
	parts := strings.Split(text, "?")
	var numbered strings.Builder
	for at, part := range parts {
		if at > 0 {
			numbered.WriteString("$" + strconv.Itoa(at))
		}
		numbered.WriteString(part)
	}
	return numbered.String()
}
