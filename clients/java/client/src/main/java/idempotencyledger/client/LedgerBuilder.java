package idempotencyledger.client;

import java.nio.file.Path;
import java.time.Duration;
import java.util.Objects;

/** The options of a {@link Ledger}. Each may be left out. */
public final class LedgerBuilder {
  private static final Duration LONGEST_LEASE = Duration.ofDays(1);
  private static final System.Logger LOG = System.getLogger("idempotencyledger");

  final String consumer;
  String endpoint;
  Path tokenFile;
  Path caFile;
  Path certificate;
  Path privateKey;
  Duration lease;
  String owner;
  Unexpected unexpected = Unexpected.PARK;
  boolean repeatAnnounced;
  boolean interruptLost = true;
  Duration handlerBudget;
  Duration ackWait;

  LedgerBuilder(String consumer) {
    this.consumer = Texts.checked("key.consumer", consumer, 128);
  }

  /**
   * The servers.
   *
   * @param endpoint {@code HOST:PORT}, {@code http://HOST:PORT}, {@code https://HOST:PORT} or a
   *     gRPC target such as {@code dns:///HOST:PORT} or {@code ipv4:A:PORT,B:PORT}; null: of the
   *     variable LEDGER_ENDPOINT, else 127.0.0.1:50051
   * @return this
   */
  public LedgerBuilder endpoint(String endpoint) {
    this.endpoint = endpoint;
    return this;
  }

  /**
   * A file with a bearer token, which is read again when it changes. It is sent by TLS alone.
   *
   * @param tokenFile the file; null: of the variable LEDGER_TOKEN_FILE
   * @return this
   */
  public LedgerBuilder tokenFile(Path tokenFile) {
    this.tokenFile = tokenFile;
    return this;
  }

  /**
   * The authorities of the servers' certificates; it asks for TLS.
   *
   * @param caFile a PEM file; null: of the variable LEDGER_CA_FILE
   * @return this
   */
  public LedgerBuilder caFile(Path caFile) {
    this.caFile = caFile;
    return this;
  }

  /**
   * The client's certificate, by which the servers know it.
   *
   * @param certificate a PEM file with it, and with those between it and its authority's
   * @param privateKey a PEM file with its private key (PKCS 8)
   * @return this
   */
  public LedgerBuilder clientCertificate(Path certificate, Path privateKey) {
    this.certificate = certificate;
    this.privateKey = privateKey;
    return this;
  }

  /**
   * How long a claim is held unless it is renewed, which happens at a third of that.
   *
   * @param lease 1 s to a day; the policy bounds it further. Null: the policy's, 30 s by default
   * @return this
   * @throws InvalidFieldException where it is not within these bounds
   */
  public LedgerBuilder lease(Duration lease) {
    if (lease != null
        && (lease.compareTo(Duration.ofSeconds(1)) < 0 || lease.compareTo(LONGEST_LEASE) > 0)) {
      throw new InvalidFieldException(
          "lease", lease + " is not within 1 s and a day; the policy may bound it further");
    }
    this.lease = lease;
    return this;
  }

  /**
   * Who asks, for people who read the ledger.
   *
   * @param owner 1 to 128 bytes; null: host and process
   * @return this
   * @throws InvalidFieldException where it is beyond its bound
   */
  public LedgerBuilder owner(String owner) {
    this.owner = owner == null ? null : Texts.checked("owner", owner, 128);
    return this;
  }

  /**
   * What an error of a handler means that is not a {@link Steer}.
   *
   * @param unexpected by default {@link Unexpected#PARK}
   * @return this
   */
  public LedgerBuilder unexpected(Unexpected unexpected) {
    this.unexpected = Objects.requireNonNull(unexpected, "unexpected");
    return this;
  }

  /**
   * Whether to process also where an earlier attempt had announced its effect.
   *
   * @param repeatAnnounced by default false: such a message is parked
   * @return this
   */
  public LedgerBuilder repeatAnnounced(boolean repeatAnnounced) {
    this.repeatAnnounced = repeatAnnounced;
    return this;
  }

  /**
   * Whether the thread of a handler is interrupted where its claim is lost. Turn it off where an
   * interrupt does harm, as with databases that close their files by it; then the handler calls
   * {@link Claim#check()}.
   *
   * @param interruptLost by default true
   * @return this
   */
  public LedgerBuilder interruptLost(boolean interruptLost) {
    this.interruptLost = interruptLost;
    return this;
  }

  /**
   * The longest time that a handler takes. It is compared with {@link #ackWait}, and nothing else.
   *
   * @param handlerBudget the time
   * @return this
   */
  public LedgerBuilder handlerBudget(Duration handlerBudget) {
    this.handlerBudget = handlerBudget;
    return this;
  }

  /**
   * The longest time that the broker waits for an acknowledgement. A warning is logged where a
   * handler may take longer.
   *
   * @param ackWait the time
   * @return this
   */
  public LedgerBuilder ackWait(Duration ackWait) {
    this.ackWait = ackWait;
    return this;
  }

  /**
   * Makes the client. Nothing is sent before the first delivery.
   *
   * @return the client
   * @throws InvalidFieldException where the options of the connection contradict each other, or a
   *     file of TLS cannot be read
   */
  public Ledger build() {
    if (handlerBudget != null && ackWait != null && handlerBudget.compareTo(ackWait) > 0) {
      LOG.log(
          System.Logger.Level.WARNING,
          "{0}: a handler may take {1}, and the broker waits {2} for an acknowledgement: it will"
              + " deliver messages again whose handler still runs. Raise its wait.",
          consumer,
          handlerBudget,
          ackWait);
    }
    return new Ledger(this);
  }
}
