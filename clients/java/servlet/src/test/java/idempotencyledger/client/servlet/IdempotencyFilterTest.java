package idempotencyledger.client.servlet;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import idempotencyledger.client.Claim;
import idempotencyledger.client.Ledger;
import idempotencyledger.client.testing.GrantingServer;
import io.grpc.Server;
import jakarta.servlet.http.Cookie;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Path;
import java.util.List;
import org.apache.catalina.Context;
import org.apache.catalina.Wrapper;
import org.apache.catalina.startup.Tomcat;
import org.apache.tomcat.util.descriptor.web.FilterDef;
import org.apache.tomcat.util.descriptor.web.FilterMap;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The wrappers within a container; the rules have scenarios and another test. */
class IdempotencyFilterTest {
  @TempDir Path folder;
  private final Tomcat tomcat = new Tomcat();
  private final HttpClient client = HttpClient.newHttpClient();
  private final GrantingServer service = new GrantingServer();
  private Server server;
  private Ledger ledger;

  /** Does what the path says. */
  private static final class Application extends HttpServlet {
    private static final long serialVersionUID = 1L;

    @Override
    protected void doPost(HttpServletRequest request, HttpServletResponse response)
        throws IOException {
      Claim claim = (Claim) request.getAttribute(IdempotencyFilter.CLAIM);
      switch (request.getPathInfo()) {
        case "/form" -> {
          response.setContentType("text/plain");
          response.setCharacterEncoding("UTF-8");
          response
              .getWriter()
              .print(request.getParameter("name") + request.getParameter("q") + claim.token());
        }
        case "/error" -> {
          response.setHeader("X-Reason", "no money");
          response.getOutputStream().print("half an answer");
          response.sendError(402, "pay first");
        }
        case "/redirect" -> {
          response.addCookie(new Cookie("seen", "yes"));
          response.sendRedirect("/elsewhere");
        }
        case "/async" -> {
          try {
            request.startAsync();
          } catch (IllegalStateException refused) {
            response.getWriter().print(request.isAsyncSupported() + " " + response.isCommitted());
          }
        }
        case "/reset" -> {
          response.setHeader("X-Reason", "dropped");
          response.getWriter().print("dropped");
          response.reset();
          response.setStatus(201);
          response.getWriter().print("kept");
          response.flushBuffer();
          response.setStatus(500);
        }
        default -> response.getOutputStream().write(request.getReader().readLine().getBytes());
      }
    }
  }

  @BeforeEach
  void start() throws Exception {
    server = GrantingServer.start(service);
    ledger = Ledger.builder("api").endpoint("127.0.0.1:" + server.getPort()).build();
    tomcat.setBaseDir(folder.toString());
    tomcat.setPort(0);
    Context context = tomcat.addContext("/shop", null);
    FilterDef filter = new FilterDef();
    filter.setFilterName("idempotency");
    filter.setAsyncSupported("true");
    filter.setFilter(new IdempotencyFilter(ledger, new IdempotencySettings()));
    context.addFilterDef(filter);
    FilterMap everywhere = new FilterMap();
    everywhere.setFilterName("idempotency");
    everywhere.addURLPattern("/*");
    context.addFilterMap(everywhere);
    Wrapper application = Tomcat.addServlet(context, "application", new Application());
    application.setAsyncSupported(true);
    application.addMapping("/*");
    tomcat.getConnector();
    tomcat.start();
  }

  @AfterEach
  void stop() throws Exception {
    tomcat.stop();
    ledger.close();
    server.shutdownNow();
  }

  private HttpResponse<String> post(String path, String body) throws Exception {
    int port = tomcat.getConnector().getLocalPort();
    return client.send(
        HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + port + "/shop" + path))
            .header("Idempotency-Key", path)
            .header("Content-Type", "application/x-www-form-urlencoded")
            .POST(HttpRequest.BodyPublishers.ofString(body))
            .build(),
        HttpResponse.BodyHandlers.ofString());
  }

  private static boolean replayed(HttpResponse<String> answer) {
    return answer.headers().firstValue("Idempotency-Replayed").isPresent();
  }

  @Test
  void parameters_of_a_form_are_read_and_the_answer_is_stored() throws Exception {
    HttpResponse<String> first = post("/form?q=1", "name=%C3%A9+a&x");
    assertEquals("\u00e9 a17", first.body());
    assertEquals("text/plain;charset=UTF-8", first.headers().firstValue("Content-Type").get());
    HttpResponse<String> again = post("/form?q=1", "name=%C3%A9+a&x");
    assertTrue(replayed(again));
    assertEquals(first.body(), again.body());
    assertEquals("text/plain;charset=UTF-8", again.headers().firstValue("Content-Type").get());
  }

  @Test
  void page_of_an_error_is_the_containers() throws Exception {
    HttpResponse<String> first = post("/error", "");
    assertEquals(402, first.statusCode());
    assertTrue(first.body().contains("pay first"), first.body());
    assertFalse(first.body().contains("half an answer"));
    assertEquals("no money", first.headers().firstValue("X-Reason").get());
    HttpResponse<String> again = post("/error", "");
    assertTrue(again.statusCode() == 402 && replayed(again));
  }

  @Test
  void redirect_is_stored_and_its_cookies_are_not() throws Exception {
    HttpResponse<String> first = post("/redirect", "");
    assertEquals(302, first.statusCode());
    assertEquals(List.of("seen=yes"), first.headers().allValues("Set-Cookie"));
    HttpResponse<String> again = post("/redirect", "");
    assertEquals("/elsewhere", again.headers().firstValue("Location").get());
    assertTrue(again.headers().allValues("Set-Cookie").isEmpty());
  }

  @Test
  void answer_cannot_be_asynchronous() throws Exception {
    assertEquals("false false", post("/async", "").body());
  }

  @Test
  void reset_forgets_and_a_flush_commits() throws Exception {
    HttpResponse<String> answer = post("/reset", "");
    assertEquals(201, answer.statusCode());
    assertEquals("kept", answer.body());
    assertTrue(answer.headers().firstValue("X-Reason").isEmpty());
  }

  @Test
  void body_is_read_again() throws Exception {
    assertEquals("a=b", post("/echo", "a=b").body());
  }
}
