package idempotencyledger.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class GuardTest {
  @TempDir Path folder;
  private final FakeWorld fake = new FakeWorld();
  private final Claim claim =
      new Claim(fake.hold(), null, new Claim.Settings(Unexpected.PARK, true, false), done -> {});
  private Connection connection;

  @BeforeEach
  void open() throws SQLException, IOException {
    connection = DriverManager.getConnection("jdbc:sqlite:" + folder.resolve("effects.db"));
    try (InputStream file = Guard.class.getResourceAsStream("guard/sqlite.sql")) {
      String table = new String(file.readAllBytes(), StandardCharsets.UTF_8).replaceAll("--.*", "");
      for (String statement : table.split(";")) {
        if (!statement.isBlank()) {
          execute(statement);
        }
      }
    }
    execute("CREATE TABLE payments (id text)");
  }

  @AfterEach
  void close() throws SQLException {
    connection.close();
  }

  private void execute(String sql) throws SQLException {
    try (Statement statement = connection.createStatement()) {
      statement.execute(sql);
    }
  }

  private int payments() throws SQLException {
    try (Statement statement = connection.createStatement();
        ResultSet found = statement.executeQuery("SELECT count(*) FROM payments")) {
      return found.getInt(1);
    }
  }

  private byte[] pay(Connection guarded) throws SQLException {
    try (Statement statement = guarded.createStatement()) {
      statement.execute("INSERT INTO payments VALUES ('x')");
    }
    return new byte[] {7};
  }

  @Test
  void second_attempt_gets_the_result_of_the_first() throws SQLException {
    assertArrayEquals(new byte[] {7}, Guard.once(connection, claim, this::pay));
    assertArrayEquals(
        new byte[] {7},
        Guard.once(
            connection,
            claim,
            guarded -> {
              throw new AssertionError("it ran again");
            }));
    assertEquals(1, payments());
    assertTrue(connection.getAutoCommit());
  }

  @Test
  void error_of_the_effect_is_a_retry_after_a_rollback() throws SQLException {
    Retry error =
        assertThrows(
            Retry.class,
            () ->
                Guard.once(
                    connection,
                    claim,
                    guarded -> {
                      pay(guarded);
                      throw new IllegalStateException("card 4111");
                    }));
    assertEquals("IllegalStateException", error.reason().orElseThrow());
    assertEquals(0, payments());
    Guard.once(connection, claim, this::pay);
    assertEquals(1, payments());
  }

  @Test
  void error_of_the_effect_is_logged_by_its_type() {
    Retry error =
        assertThrows(
            Retry.class,
            () ->
                Guard.once(
                    connection,
                    claim,
                    guarded -> {
                      throw new IllegalStateException("card 4111");
                    }));
    try (Lines logged = new Lines()) {
      new Report("c").outcome(Outcome.later(null).withError(error));
      assertEquals(1, logged.lines.size());
      assertTrue(logged.lines.get(0).contains("IllegalStateException"), logged.lines.get(0));
      assertFalse(logged.lines.get(0).contains("4111"), logged.lines.get(0));
    }
  }

  @Test
  void steering_error_passes_after_a_rollback() throws SQLException {
    assertThrows(
        Terminal.class,
        () ->
            Guard.once(
                connection,
                claim,
                guarded -> {
                  pay(guarded);
                  throw new Terminal("no such account");
                }));
    assertEquals(0, payments());
  }

  @Test
  void error_of_the_database_is_undecided() {
    Undecided error =
        assertThrows(
            Undecided.class,
            () ->
                Guard.once(
                    connection,
                    claim,
                    guarded -> {
                      execute("INSERT INTO no_such_table VALUES (1)");
                      return null;
                    }));
    assertTrue(error.reason().orElseThrow().endsWith(" of the database"), error.toString());
  }

  @Test
  void missing_table_is_named_with_the_file_that_makes_it() throws SQLException {
    execute("DROP TABLE effect_guard");
    Undecided error = assertThrows(Undecided.class, () -> Guard.once(connection, claim, this::pay));
    assertEquals(
        "the database has no table effect_guard;"
            + " run idempotencyledger/client/guard/sqlite.sql of the jar in it",
        error.reason().orElseThrow());
    assertEquals(0, payments());
  }

  @Test
  void row_of_another_message_is_not_trusted() throws SQLException {
    Guard.once(connection, claim, this::pay);
    execute("UPDATE effect_guard SET id = 'other'");
    assertThrows(WrongRow.class, () -> Guard.once(connection, claim, this::pay));
    execute("UPDATE effect_guard SET id = 'i', result = NULL");
    assertThrows(WrongRow.class, () -> Guard.once(connection, claim, this::pay));
    assertEquals(1, payments());
  }

  @Test
  void effect_that_ends_the_transaction_is_found_out() throws SQLException {
    assertThrows(
        WrongRow.class,
        () ->
            Guard.once(
                connection,
                claim,
                guarded -> {
                  guarded.rollback();
                  return pay(guarded);
                }));
    assertEquals(0, payments());
  }

  @Test
  void connection_must_commit_by_itself() throws SQLException {
    connection.setAutoCommit(false);
    InvalidFieldException error =
        assertThrows(InvalidFieldException.class, () -> Guard.once(connection, claim, this::pay));
    assertEquals("connection", error.field());
  }

  @Test
  void nothing_begins_after_the_hold() {
    fake.standStill(3601);
    assertThrows(Undecided.class, () -> Guard.once(connection, claim, this::pay));
  }
}
