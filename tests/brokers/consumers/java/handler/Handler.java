package handler;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import idempotencyledger.client.Claim;
import idempotencyledger.client.Ledger;
import idempotencyledger.client.Retry;
import idempotencyledger.client.Shutdown;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;

/**
 * What each consumer in Java does with a message: an effect in three sinks, or a failure of a
 * poisonous one. The sinks are those of examples/consumer/sinks.py.
 */
public final class Handler {
  /** ms: long enough for a kill to hit it; a message may say another time. */
  private static final long EFFECT = 20;

  private static final String[] SCHEMA = {
    "CREATE TABLE IF NOT EXISTS plain (id TEXT)",
    "CREATE TABLE IF NOT EXISTS fenced (id TEXT PRIMARY KEY, token INTEGER)",
    "CREATE TABLE IF NOT EXISTS refused (id TEXT, token INTEGER)",
    "CREATE TABLE IF NOT EXISTS deduplicating (key TEXT PRIMARY KEY, id TEXT)",
  };

  private final Map<String, String> options = new HashMap<>();
  private final ThreadLocal<Connection> sinks = ThreadLocal.withInitial(this::connect);
  private final Shutdown stop;

  /** From then on the test may ask the process to stop. */
  public Handler(String[] arguments) {
    for (int at = 0; at < arguments.length; at += 2) {
      options.put(arguments[at].substring(2), arguments[at + 1]);
    }
    stop = Shutdown.onSignal(Duration.ofSeconds(10));
    System.out.println(ProcessHandle.current().pid() + " consumes");
    // The driver unpacks its library there; a process that is killed leaves it.
    System.setProperty("org.sqlite.tmpdir", Path.of(options.get("sinks")).getParent().toString());
  }

  public Shutdown stop() {
    return stop;
  }

  public String broker() {
    return options.get("broker");
  }

  /**
   * Milliseconds until the broker gives to another consumer what this one holds: the end of its
   * session.
   */
  public String waitMs() {
    return String.valueOf(waitTime().toMillis());
  }

  /** The same time, or the acknowledgement wait. */
  public Duration waitTime() {
    return Duration.ofMillis(Math.round(1000 * Double.parseDouble(System.getenv("BROKER_WAIT"))));
  }

  public Ledger ledger() {
    return Ledger.builder("payments").endpoint(options.get("ledger")).build();
  }

  private Connection connect() {
    try {
      Connection made =
          DriverManager.getConnection(
              "jdbc:sqlite:" + options.get("sinks") + "?busy_timeout=10000");
      try (Statement statement = made.createStatement()) {
        for (String table : SCHEMA) {
          statement.execute(table);
        }
      }
      return made;
    } catch (SQLException e) {
      throw new Retry("no sinks");
    }
  }

  /** Has the effect of a message. */
  public byte[] pay(Claim claim, byte[] body) throws Exception {
    String text = new String(body, StandardCharsets.UTF_8);
    JsonObject event = JsonParser.parseString(text).getAsJsonObject();
    if (event.get("type").getAsString().equals("poison")) {
      throw new Retry("this message cannot be processed");
    }
    String id = event.get("id").getAsString();
    write("INSERT INTO plain VALUES (?)", id);
    long takes = event.has("takes") ? event.get("takes").getAsLong() : 0;
    Thread.sleep(takes > 0 ? takes : EFFECT);
    int written =
        write(
            "INSERT INTO fenced VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET token ="
                + " excluded.token WHERE excluded.token >= token",
            id,
            claim.token());
    if (written == 0) {
      write("INSERT INTO refused VALUES (?, ?)", id, claim.token());
    }
    write("INSERT OR IGNORE INTO deduplicating VALUES (?, ?)", claim.idempotencyKey(), id);
    Thread.sleep(EFFECT);
    return "done".getBytes(StandardCharsets.UTF_8);
  }

  private int write(String statement, Object... values) throws SQLException {
    try (PreparedStatement prepared = sinks.get().prepareStatement(statement)) {
      for (int at = 0; at < values.length; at++) {
        prepared.setObject(at + 1, values[at]);
      }
      return prepared.executeUpdate();
    }
  }
}
