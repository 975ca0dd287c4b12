import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import idempotencyledger.client.Claim;
import idempotencyledger.client.Ledger;
import idempotencyledger.client.servlet.Answer;
import idempotencyledger.client.servlet.IdempotencyFilter;
import idempotencyledger.client.servlet.IdempotencySettings;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.List;
import java.util.Optional;
import org.apache.catalina.Context;
import org.apache.catalina.LifecycleException;
import org.apache.catalina.startup.Tomcat;
import org.apache.tomcat.util.descriptor.web.FilterDef;
import org.apache.tomcat.util.descriptor.web.FilterMap;

/** The HTTP application of the subject: it takes the steps that a request's header names. */
final class Serving {
  private Serving() {}

  static void serve(JsonObject command) throws LifecycleException, IOException {
    Ledger ledger =
        Ledger.builder(command.get("consumer").getAsString())
            .endpoint(command.get("endpoint").getAsString())
            .build();
    Tomcat tomcat = new Tomcat();
    tomcat.setBaseDir(Files.createTempDirectory("subject").toString());
    tomcat.setHostname("127.0.0.1");
    tomcat.setPort(0);
    Context context = tomcat.addContext("", null);
    FilterDef filter = new FilterDef();
    filter.setFilterName("idempotency");
    filter.setFilter(new IdempotencyFilter(ledger, settings(command)));
    context.addFilterDef(filter);
    FilterMap everywhere = new FilterMap();
    everywhere.setFilterName("idempotency");
    everywhere.addURLPattern("/*");
    context.addFilterMap(everywhere);
    Tomcat.addServlet(context, "steps", new Steps()).addMapping("/*");
    tomcat.getConnector();
    tomcat.start();
    Lines.say("serving", "address", "127.0.0.1:" + tomcat.getConnector().getLocalPort());
  }

  private static IdempotencySettings settings(JsonObject command) {
    IdempotencySettings settings =
        new IdempotencySettings()
            .tenant(request -> Optional.ofNullable(request.getHeader("X-Tenant")).orElse(""));
    if (command.has("wait")) {
      settings.wait(Lines.seconds(command, "wait"));
    }
    if (command.has("required")) {
      settings.required(command.get("required").getAsBoolean());
    }
    if (command.has("result_max")) {
      settings.resultMax(command.get("result_max").getAsInt());
    }
    if (command.has("body_max")) {
      settings.bodyMax(command.get("body_max").getAsInt());
    }
    if (command.has("reread") && command.get("reread").getAsBoolean()) {
      List<Answer.Header> headers = List.of(new Answer.Header("content-type", "text/plain"));
      byte[] body = "read again".getBytes(StandardCharsets.UTF_8);
      settings.reread(request -> new Answer(200, headers, body));
    }
    return settings;
  }

  private static final class Steps extends HttpServlet {
    private static final long serialVersionUID = 1L;

    @Override
    protected void service(HttpServletRequest request, HttpServletResponse response)
        throws IOException {
      Claim claim = (Claim) request.getAttribute(IdempotencyFilter.CLAIM);
      String call = Optional.ofNullable(request.getHeader("X-Call")).orElse("");
      request.getInputStream().readAllBytes();
      String steps = Optional.ofNullable(request.getHeader("X-Steps")).orElse("[]");
      for (JsonElement each : JsonParser.parseString(steps).getAsJsonArray()) {
        JsonObject step = each.getAsJsonObject();
        switch (step.get("do").getAsString()) {
          case "effect" -> {
            String token = claim == null ? "0" : String.valueOf(claim.token());
            Lines.effect(call, call, token, claim == null ? call : claim.idempotencyKey());
            Lines.going(call).acquireUninterruptibly();
          }
          case "pause" -> pause(call);
          case "announce" -> claim.announce();
          case "raise" -> throw new IllegalStateException("no answer");
          case "answer" -> {
            response.setStatus(step.get("status").getAsInt());
            response.setHeader("Content-Type", "text/plain");
            response.setHeader("Location", "/orders/1");
            response.setHeader("X-Private", "not stored");
            response.getOutputStream().write(Lines.content(step, "body"));
            return;
          }
          default -> throw new IllegalArgumentException(step.toString());
        }
      }
      response.setStatus(204);
    }

    private static void pause(String call) {
      Lines.say("paused", "call", call);
      try {
        Lines.going(call).acquire();
      } catch (InterruptedException interrupted) {
        Thread.currentThread().interrupt();
        throw new UncheckedIOException(new IOException("interrupted"));
      }
    }
  }
}
