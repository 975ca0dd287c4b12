package idempotencyledger.client;

import idempotencyledger.client.proto.EntryKey;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.Arrays;
import java.util.List;

/**
 * An effect that is rows in your own SQL database, once: a guard row and the effect commit
 * together, or not at all.
 *
 * <p>The table {@code effect_guard} is made by {@code sqlite.sql}, {@code postgres.sql} or {@code
 * mysql.sql} of the folder {@code idempotencyledger/client/guard} in the jar, in the database that
 * the effects are in. A guard promises nothing outside of that database, and nothing after the
 * guard row was deleted.
 */
public final class Guard {
  private static final String KEY = " WHERE idempotency_key = ? AND replay_run = ?";
  private static final String KEEP = "UPDATE effect_guard SET result = ?" + KEY;
  private static final String READ = "SELECT consumer, source, id, result FROM effect_guard" + KEY;

  private Guard() {}

  /** An effect in a SQL database. */
  @FunctionalInterface
  public interface Effect {
    /**
     * Writes by this connection and nothing else, neither begins nor ends a transaction, and
     * catches no error of the database.
     *
     * @param connection the guard's connection, amid its transaction
     * @return the result, which the guard keeps and the handler returns; null: no bytes
     * @throws Exception whatever it is, the transaction is rolled back, so that the effect has
     *     certainly not happened
     */
    byte[] apply(Connection connection) throws Exception;
  }

  /**
   * Has the effect unless an attempt has had it before. Call it in a handler, and let what it
   * throws pass.
   *
   * <p>What the effect throws is thrown after a rollback: steering errors as they are, any other
   * one as the cause of a {@link Retry}. An error that became a {@link Retry} or {@link Undecided}
   * is logged by its type.
   *
   * @param connection one of SQLite, PostgreSQL, MySQL or MariaDB in auto-commit mode, without an
   *     open transaction, for the guard alone until this returns; then it is in auto-commit mode
   *     again, or closed where that fails
   * @param claim the granted claim
   * @param effect the effect
   * @return the result of the attempt that had the effect
   * @throws InvalidFieldException where the connection is of another database, or not in
   *     auto-commit mode
   * @throws Undecided after an error of the database, which includes waits for another transaction
   *     of 2 seconds
   * @throws WrongRow where the guard row cannot be trusted
   */
  public static byte[] once(Connection connection, Claim claim, Effect effect) {
    try {
      Dialect dialect = Dialect.of(connection);
      if (!connection.getAutoCommit()) {
        throw new InvalidFieldException(
            "connection",
            "must be in auto-commit mode: only the guard begins and ends a transaction");
      }
      dialect.boundWaits(connection);
      // Until then an older attempt may begin, and its guard row is kept; later it may have been
      // deleted.
      if (claim.holdLeft().isZero()) {
        throw new Undecided("the hold of the claim is over", null);
      }
      connection.setAutoCommit(false);
      try {
        return transaction(connection, dialect, claim, effect);
      } finally {
        rollBack(connection);
      }
    } catch (SQLException error) {
      // A wait that was too long, a deadlock, a lost connection, a COMMIT without answer.
      throw new Undecided(error.getClass().getSimpleName() + " of the database", error);
    }
  }

  private static byte[] transaction(
      Connection connection, Dialect dialect, Claim claim, Effect effect) throws SQLException {
    EntryKey key = claim.hold().request().getKey();
    List<String> row = List.of(claim.idempotencyKey(), key.getReplayRun());
    List<String> names = List.of(key.getConsumer(), key.getSource(), key.getId());
    // The first statement. While another transaction has the row and did not commit, it waits: not
    // for ever.
    if (!dialect.inserted(connection, row, names, claim.token())) {
      return doneBefore(connection, row, names);
    }
    byte[] result;
    try {
      byte[] returned = effect.apply(connection);
      result = returned == null ? new byte[0] : returned;
    } catch (Steer | SQLException error) {
      throw error;
    } catch (Exception error) {
      if (error instanceof InterruptedException) {
        Thread.currentThread().interrupt();
      }
      throw new RolledBack(error);
    }
    try (PreparedStatement keep = connection.prepareStatement(KEEP)) {
      keep.setBytes(1, result);
      keep.setString(2, row.get(0));
      keep.setString(3, row.get(1));
      if (keep.executeUpdate() != 1) {
        throw new WrongRow("the guard row is gone: the effect has ended the guard's transaction");
      }
    }
    connection.commit();
    return result;
  }

  /**
   * The result of the attempt that had the effect, if the guard row is that of this very message.
   */
  private static byte[] doneBefore(Connection connection, List<String> row, List<String> names)
      throws SQLException {
    try (PreparedStatement read = connection.prepareStatement(READ)) {
      read.setString(1, row.get(0));
      read.setString(2, row.get(1));
      try (ResultSet found = read.executeQuery()) {
        if (!found.next()) {
          throw new Undecided("the guard row was deleted this very moment", null);
        }
        for (int at = 0; at < names.size(); at++) {
          byte[] name = names.get(at).getBytes(StandardCharsets.UTF_8);
          if (!Arrays.equals(name, bytes(found.getObject(at + 1)))) {
            throw new WrongRow("the guard row is that of another message");
          }
        }
        byte[] result = found.getBytes(4);
        if (result == null) {
          throw new WrongRow("the guard row has no result: it was committed without its effect");
        }
        return result;
      }
    }
  }

  private static byte[] bytes(Object name) {
    return name instanceof byte[] raw ? raw : String.valueOf(name).getBytes(StandardCharsets.UTF_8);
  }

  /**
   * Ends what is open. A connection that cannot do that is closed, so that the server rolls back.
   */
  private static void rollBack(Connection connection) {
    try {
      connection.rollback();
      connection.setAutoCommit(true);
    } catch (SQLException error) {
      try {
        connection.close();
      } catch (SQLException closed) {
        error.addSuppressed(closed);
      }
    }
  }
}
