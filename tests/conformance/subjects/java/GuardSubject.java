import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import idempotencyledger.client.Delivery;
import idempotencyledger.client.Guard;
import idempotencyledger.client.Key;
import idempotencyledger.client.Ledger;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * A subject whose effect is a row in a SQL database, behind the package's guard: the step effect is
 * its transaction.
 */
public final class GuardSubject {
  private static final String URL = System.getenv("DATABASE_URL");
  private static final String PAY =
      "INSERT INTO payments (receipt, source, id, amount) VALUES (?, ?, ?, ?)";
  private static final Map<String, Ledger> LEDGERS = new ConcurrentHashMap<>();

  private GuardSubject() {}

  public static void main(String[] arguments) throws Exception {
    Warm.up();
    Lines.say("ready");
    BufferedReader input =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      JsonObject command = JsonParser.parseString(line).getAsJsonObject();
      switch (command.get("do").getAsString()) {
        case "open" -> {
          String consumer = command.get("consumer").getAsString();
          LEDGERS.put(
              command.get("ledger").getAsString(),
              Ledger.builder(consumer).endpoint(command.get("endpoint").getAsString()).build());
          Lines.say("opened");
        }
        case "process" -> new Thread(() -> process(command)).start();
        case "go" -> Lines.going(command.get("call").getAsString()).release();
        default -> throw new IllegalArgumentException(line);
      }
    }
    Runtime.getRuntime().halt(0);
  }

  private static Connection connect() throws SQLException {
    URI url = URI.create(URL);
    if (url.getScheme().equals("sqlite")) {
      return DriverManager.getConnection("jdbc:sqlite:" + url.getSchemeSpecificPart());
    }
    if (url.getScheme().equals("mysql")) {
      String socket = url.getQuery().replaceFirst("unix_socket=", "");
      return DriverManager.getConnection(
          "jdbc:mariadb://localhost" + url.getPath() + "?localSocket=" + socket,
          url.getUserInfo(),
          "");
    }
    String[] user = url.getUserInfo().split(":", 2);
    return DriverManager.getConnection(
        "jdbc:postgresql://" + url.getHost() + ":" + url.getPort() + url.getPath(),
        user[0],
        user.length > 1 ? user[1] : "");
  }

  private static void process(JsonObject command) {
    String call = command.get("call").getAsString();
    String id = command.get("id").getAsString();
    String receipt = call + "-" + ProcessHandle.current().pid();
    Guard.Effect pay =
        connection -> {
          try (PreparedStatement insert = connection.prepareStatement(PAY)) {
            insert.setString(1, receipt);
            insert.setString(2, "shop");
            insert.setString(3, id);
            insert.setInt(4, 1);
            insert.executeUpdate();
          }
          Lines.effect(call, id, "0", id); // Amid the transaction.
          Lines.going(call).acquireUninterruptibly();
          return receipt.getBytes(StandardCharsets.UTF_8);
        };
    try {
      Delivery delivery = Delivery.of(Key.of("shop", id)).withWait(Lines.seconds(command, "wait"));
      Ledger ledger = LEDGERS.get(command.get("ledger").getAsString());
      Lines.finished(
          call,
          ledger.process(
              delivery,
              claim -> {
                Lines.started(call, claim);
                try (Connection connection = connect()) {
                  return Guard.once(connection, claim, pay);
                }
              }));
    } catch (RuntimeException error) {
      Lines.failed(call, error);
    }
  }
}
