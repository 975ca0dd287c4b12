package idempotencyledger.client.spring;

import idempotencyledger.client.Unexpected;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * The properties {@code idempotency-ledger.*}: the options of {@link
 * idempotencyledger.client.LedgerBuilder}, where they are explained. What is absent has the
 * defaults there.
 *
 * @param consumer the consumer; without it nothing is configured
 * @param endpoint the servers
 * @param tokenFile a file with a bearer token
 * @param caFile the authorities of the servers' certificates
 * @param clientCertFile the client's certificate
 * @param clientKeyFile its private key
 * @param lease how long a claim is held unless it is renewed
 * @param owner who asks, for people
 * @param unexpected what an unexpected error means
 * @param repeatAnnounced whether to process where an earlier attempt had announced its effect
 * @param interruptLost whether a lost claim interrupts its handler
 * @param handlerBudget the longest time that a handler takes
 * @param ackWait the longest time that the broker waits for an acknowledgement
 * @param shutdownGrace how long the end of the application waits for running effects; by default 20
 *     s
 * @param http requests with an {@code Idempotency-Key}
 */
@ConfigurationProperties("idempotency-ledger")
public record IdempotencyLedgerProperties(
    String consumer,
    String endpoint,
    Path tokenFile,
    Path caFile,
    Path clientCertFile,
    Path clientKeyFile,
    Duration lease,
    String owner,
    @DefaultValue("PARK") Unexpected unexpected,
    @DefaultValue("false") boolean repeatAnnounced,
    @DefaultValue("true") boolean interruptLost,
    Duration handlerBudget,
    Duration ackWait,
    @DefaultValue("20s") Duration shutdownGrace,
    @DefaultValue Http http) {
  /**
   * The properties {@code idempotency-ledger.http.*}. A bean of {@link
   * idempotencyledger.client.servlet.IdempotencySettings} says the rest: tenant, route, and what is
   * stored.
   *
   * @param enabled whether the filter is there; by default false
   * @param urlPatterns what it is for; by default {@code /*}
   * @param order its place among the filters; by default 0, after those of Spring Security
   */
  public record Http(
      @DefaultValue("false") boolean enabled,
      @DefaultValue("/*") List<String> urlPatterns,
      @DefaultValue("0") int order) {}
}
