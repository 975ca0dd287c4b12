package idempotencyledger.client;

import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.sql.SQLIntegrityConstraintViolationException;
import java.sql.Statement;
import java.util.List;
import java.util.Locale;

/** What differs between the databases that a guard may be in. */
enum Dialect {
  /**
   * A conflict is seen and then read, though it was committed after this transaction began: READ
   * COMMITTED.
   */
  POSTGRES(
      "SET lock_timeout = '2s'",
      "SET statement_timeout = '10s'",
      "SET idle_in_transaction_session_timeout = '10s'",
      "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED"),

  /**
   * MySQL and MariaDB: a plain INSERT, whose error for a duplicate ends the statement alone. INSERT
   * IGNORE would hide values that are cut, and the count of ON DUPLICATE KEY UPDATE depends on a
   * flag of the connection.
   */
  MYSQL(
      "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
      "SET SESSION innodb_lock_wait_timeout = 2",
      // A name that is too long is an error, and not cut.
      "SET SESSION sql_mode = CONCAT(@@SESSION.sql_mode, ',STRICT_ALL_TABLES')"),

  /**
   * The first statement writes, so that the one lock of writers is taken, or waited for, before
   * anything is read.
   */
  SQLITE("PRAGMA busy_timeout = 2000");

  private static final String INSERT =
      "INSERT INTO effect_guard (idempotency_key, replay_run, consumer, source, id, token)"
          + " VALUES (?, ?, ?, ?, ?, ?)";
  private static final String UNLESS_THERE =
      " ON CONFLICT (idempotency_key, replay_run) DO NOTHING";
  private static final int DUPLICATE = 1062;

  private final List<String> waits;

  Dialect(String... waits) {
    this.waits = List.of(waits);
  }

  /** The dialect of a connection, by the name of its database. */
  static Dialect of(Connection connection) throws SQLException {
    String name = connection.getMetaData().getDatabaseProductName();
    return switch (name.toLowerCase(Locale.ROOT)) {
      case "postgresql" -> POSTGRES;
      case "mysql", "mariadb" -> MYSQL;
      case "sqlite" -> SQLITE;
      default ->
          throw new InvalidFieldException(
              "connection",
              "is of " + name + ", and must be of SQLite, PostgreSQL, MySQL or MariaDB");
    };
  }

  /**
   * Bounds every wait of the session: a guard that waits for ever is a consumer that stands still.
   */
  void boundWaits(Connection connection) throws SQLException {
    try (Statement statement = connection.createStatement()) {
      for (String wait : waits) {
        statement.execute(wait);
      }
    }
  }

  /** False where the key was there: nothing was written then, and the transaction goes on. */
  boolean inserted(Connection connection, List<String> row, List<String> names, long token)
      throws SQLException {
    String sql = this == MYSQL ? INSERT : INSERT + UNLESS_THERE;
    try (PreparedStatement insert = connection.prepareStatement(sql)) {
      insert.setString(1, row.get(0));
      insert.setString(2, row.get(1));
      for (int at = 0; at < names.size(); at++) {
        if (this == MYSQL) {
          insert.setBytes(at + 3, names.get(at).getBytes(StandardCharsets.UTF_8));
        } else {
          insert.setString(at + 3, names.get(at));
        }
      }
      insert.setLong(6, token);
      return insert.executeUpdate() == 1;
    } catch (SQLIntegrityConstraintViolationException error) {
      if (this == MYSQL && error.getErrorCode() == DUPLICATE) {
        return false;
      }
      throw error;
    } catch (SQLException error) {
      if (missesTable(error)) {
        String file = "idempotencyledger/client/guard/" + name().toLowerCase(Locale.ROOT) + ".sql";
        throw new Undecided(
            "the database has no table effect_guard; run " + file + " of the jar in it", error);
      }
      throw error;
    }
  }

  /** Whether the statement failed because its table is missing, or is not in the search path. */
  private boolean missesTable(SQLException error) {
    return switch (this) {
      case POSTGRES -> "42P01".equals(error.getSQLState());
      case MYSQL -> "42S02".equals(error.getSQLState());
      // Its driver has one code for all errors of a statement.
      case SQLITE -> String.valueOf(error.getMessage()).contains("no such table: effect_guard");
    };
  }
}
