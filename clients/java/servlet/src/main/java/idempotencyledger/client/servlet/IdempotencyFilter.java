package idempotencyledger.client.servlet;

import idempotencyledger.client.Claim;
import idempotencyledger.client.ClosedException;
import idempotencyledger.client.Delivery;
import idempotencyledger.client.Key;
import idempotencyledger.client.Ledger;
import idempotencyledger.client.Outcome;
import idempotencyledger.client.Steer;
import jakarta.servlet.DispatcherType;
import jakarta.servlet.Filter;
import jakarta.servlet.FilterChain;
import jakarta.servlet.ServletException;
import jakarta.servlet.ServletRequest;
import jakarta.servlet.ServletResponse;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.List;
import java.util.Objects;
import java.util.Optional;

/**
 * Lets an application process each request with an {@code Idempotency-Key} once: a repeated request
 * gets the first answer.
 *
 * <p>The answer is held in memory until it is settled, so that the application cannot answer
 * asynchronously: leave streams out by the mapping of the filter. Of an answer by {@code sendError}
 * the page is the container's, and is not stored. The application finds its claim in the attribute
 * {@link #CLAIM} of the request. A client that goes away does not cancel a request that is
 * processed; the loss of the claim interrupts it.
 */
public final class IdempotencyFilter implements Filter {
  /** The attribute of a request with its {@link Claim}. */
  public static final String CLAIM = "idempotency_ledger.claim";

  private static final String HEADER = "Idempotency-Key";

  private final Ledger ledger;
  private final IdempotencySettings settings;

  /**
   * Makes a filter.
   *
   * @param ledger a client whose consumer is the name of the API; close it when the application
   *     shuts down
   * @param settings the settings
   */
  public IdempotencyFilter(Ledger ledger, IdempotencySettings settings) {
    this.ledger = Objects.requireNonNull(ledger, "ledger");
    this.settings = Objects.requireNonNull(settings, "settings");
  }

  @Override
  public void doFilter(ServletRequest asked, ServletResponse answered, FilterChain chain)
      throws IOException, ServletException {
    if (!(asked instanceof HttpServletRequest request)
        || !(answered instanceof HttpServletResponse response)
        || request.getDispatcherType() != DispatcherType.REQUEST
        || !settings.methods().contains(request.getMethod())) {
      chain.doFilter(asked, answered);
      return;
    }
    List<String> sent = Collections.list(request.getHeaders(HEADER));
    if (sent.isEmpty() && !settings.required()) {
      chain.doFilter(asked, answered);
      return;
    }
    Optional<String> key = Rules.key(sent);
    if (key.isEmpty()) {
      CapturedResponse.send(response, sent.isEmpty() ? Rules.MISSING : Rules.MALFORMED);
      return;
    }
    byte[] body = request.getInputStream().readNBytes(settings.bodyMax() + 1);
    if (body.length > settings.bodyMax()) {
      String title = "a body may have " + settings.bodyMax() + " bytes";
      CapturedResponse.send(response, Rules.problem(413, title, java.time.Duration.ZERO));
      return;
    }
    String route = settings.route() == null ? path(request) : settings.route().apply(request);
    String source = Rules.source(settings.tenant().apply(request), request.getMethod(), route);
    new Exchange(request, response, chain, body).process(Key.of(source, key.get()));
  }

  /** The decoded path, without the parameters of its segments. */
  private static String path(HttpServletRequest request) {
    String context = request.getContextPath().replace("+", "%2B");
    String within = request.getPathInfo() == null ? "" : request.getPathInfo();
    return URLDecoder.decode(context, StandardCharsets.UTF_8) + request.getServletPath() + within;
  }

  /**
   * One request under way: what the application has answered or thrown, and what its claim came to.
   */
  private final class Exchange {
    private final HttpServletRequest request;
    private final HttpServletResponse response;
    private final FilterChain chain;
    private final byte[] body;
    private CapturedResponse captured;
    private Throwable error;

    Exchange(
        HttpServletRequest request, HttpServletResponse response, FilterChain chain, byte[] body) {
      this.request = request;
      this.response = response;
      this.chain = chain;
      this.body = body;
    }

    void process(Key key) throws IOException, ServletException {
      Outcome outcome;
      try {
        Delivery delivery = Delivery.of(key).withBody(body).withWait(settings.longestWait());
        outcome = ledger.process(delivery, this::handle);
      } catch (ClosedException closed) {
        CapturedResponse.send(response, Rules.CLOSING);
        return;
      }
      // What the application has answered is sent whatever became of its claim: the effect
      // happened.
      if (error != null) {
        rethrow();
      } else if (captured != null) {
        captured.send();
      } else if (!outcome.replayed()) {
        CapturedResponse.send(response, Rules.refused(outcome));
      } else {
        Rules.Replayed replayed = Rules.replayed(outcome.result());
        boolean again = replayed.omitted() && settings.reread() != null;
        CapturedResponse.send(
            response, again ? Rules.marked(settings.reread().apply(request)) : replayed.answer());
      }
    }

    private byte[] handle(Claim claim) {
      CapturedResponse collected = new CapturedResponse(response, settings.answerMax());
      try {
        BufferedRequest again = new BufferedRequest(request, body);
        again.setAttribute(CLAIM, claim);
        chain.doFilter(again, collected);
      } catch (Throwable thrown) { // The container gets it, after the claim is settled.
        // Of a claim that is lost nothing is settled, and the answer asks the client to repeat it.
        claim.check();
        error = thrown;
        throw Rules.failure(thrown.getClass().getSimpleName(), claim.announced());
      }
      captured = collected;
      Answer answer = collected.answer();
      Optional<Steer> steer = Rules.ending(settings, answer.status(), claim.announced());
      if (steer.isPresent()) {
        throw steer.get();
      }
      return Rules.stored(settings, answer, collected.whole());
    }

    private void rethrow() throws IOException, ServletException {
      if (error instanceof IOException io) {
        throw io;
      } else if (error instanceof ServletException servlet) {
        throw servlet;
      } else if (error instanceof RuntimeException unchecked) {
        throw unchecked;
      } else if (error instanceof Error fatal) {
        throw fatal;
      }
      throw new ServletException(error);
    }
  }
}
