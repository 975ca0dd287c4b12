package idempotencyledger.client;

import com.google.protobuf.ByteString;
import idempotencyledger.client.Transport.Answer;
import idempotencyledger.client.proto.Acquired;
import idempotencyledger.client.proto.ClaimRequest;
import idempotencyledger.client.proto.LedgerServiceGrpc;
import idempotencyledger.client.proto.OnExpiry;
import idempotencyledger.client.proto.RenewRequest;
import idempotencyledger.client.proto.RenewResponse;
import java.util.concurrent.TimeUnit;

/**
 * A granted claim: how long it is held, what is announced and saved under it. Its instants count
 * from before the call was sent, so that they are early rather than late.
 */
final class Hold {
  static final String LEASE_OVER = "LEASE_OVER";

  /** The last part of the hold cannot be extended where less than this is missing. */
  private static final long SLACK = TimeUnit.MILLISECONDS.toNanos(1);

  private final World world;
  private final Transport transport;
  private final ClaimRequest request;
  private final Acquired granted;
  private long leaseUntil;
  private long holdUntil;
  private long renewAt;
  private boolean announced;
  private boolean completing;
  private String lost;
  private Outcome settled;

  Hold(World world, Transport transport, ClaimRequest request, Acquired granted, long sent) {
    this.world = world;
    this.transport = transport;
    this.request = request;
    this.granted = granted;
    long lease = Protos.nanos(granted.getLease());
    leaseUntil = sent + lease;
    renewAt = sent + lease / 3;
    holdUntil = granted.hasHold() ? sent + Protos.nanos(granted.getHold()) : Protos.FOREVER;
  }

  World world() {
    return world;
  }

  Transport transport() {
    return transport;
  }

  ClaimRequest request() {
    return request;
  }

  Acquired granted() {
    return granted;
  }

  synchronized long leaseUntil() {
    return leaseUntil;
  }

  synchronized long holdUntil() {
    return holdUntil;
  }

  synchronized long renewAt() {
    return Math.min(renewAt, leaseUntil);
  }

  synchronized void renewAt(long instant) {
    renewAt = instant;
  }

  /**
   * The last part of the hold cannot be extended: nothing more is sent, and the claim ends with its
   * lease.
   */
  synchronized boolean isFinal() {
    return leaseUntil + SLACK >= holdUntil;
  }

  synchronized boolean announced() {
    return announced;
  }

  /**
   * From the first Complete on its outcome may be unknown, and nothing but a Complete may be sent
   * any more.
   */
  synchronized boolean completing() {
    return completing;
  }

  synchronized void setCompleting() {
    completing = true;
  }

  /** What the first settlement came to, after which nothing else is sent; null before it. */
  synchronized Outcome settled() {
    return settled;
  }

  synchronized void settled(Outcome outcome) {
    settled = outcome;
  }

  synchronized void lost(String reason) {
    lost = reason;
  }

  /**
   * The ledger has refused to renew the claim, or nothing could renew it; null while it is held.
   */
  synchronized String lost() {
    return lost;
  }

  /** Why the claim must not be acted under any more; null while it is held. */
  synchronized String over() {
    if (lost != null) {
      return lost;
    }
    return world.now() >= leaseUntil ? LEASE_OVER : null;
  }

  void check() {
    String reason = over();
    if (reason != null) {
      throw new ClaimLostException(reason);
    }
  }

  RenewRequest.Builder renewal() {
    RenewRequest.Builder renewal =
        RenewRequest.newBuilder().setKey(request.getKey()).setToken(granted.getToken());
    return request.hasLease() ? renewal.setLease(request.getLease()) : renewal;
  }

  synchronized void renewed(RenewResponse answer, long sent) {
    long left = Protos.nanos(answer.getLease());
    leaseUntil = Math.max(leaseUntil, sent + left);
    renewAt = sent + left / 3;
    if (answer.hasHold()) {
      holdUntil = Math.min(holdUntil, sent + Protos.nanos(answer.getHold()));
    }
  }

  private RenewResponse renew(long budget, RenewRequest.Builder renewal) throws CallFailed {
    Answer<RenewResponse> answer =
        transport.repeated(
            world,
            LedgerServiceGrpc.getRenewMethod(),
            renewal.build(),
            budget,
            world.callTimeout());
    renewed(answer.message(), answer.sent());
    return answer.message();
  }

  /**
   * Whether the handler may run. A Claim that has waited may have used up its lease by this
   * process's clock, which counts from before it was sent, and so may a process that stood still: a
   * Renew says how it stands.
   */
  boolean madeSure() {
    if (over() != null) {
      try {
        renew(world.callTimeout(), renewal());
      } catch (CallFailed refused) {
        return false;
      }
    }
    return over() == null;
  }

  void announce() {
    check();
    OnExpiry onExpiry = granted.getOnExpiry();
    if (onExpiry != OnExpiry.ON_EXPIRY_PARK && onExpiry != OnExpiry.ON_EXPIRY_PARK_IF_STARTED) {
      throw new NotProtectedException(onExpiry.name().replaceFirst("ON_EXPIRY_", ""));
    }
    synchronized (this) {
      announced = true; // The ledger may know it although its answer is lost.
    }
    try {
      renew(leaseUntil() - world.now(), renewal().setEffectStarted(true));
    } catch (CallFailed error) {
      throw new AnnouncementFailedException(error.failure().name());
    }
    check();
  }

  void save(byte[] checkpoint) {
    check();
    RenewResponse answer;
    try {
      answer =
          renew(
              leaseUntil() - world.now(), renewal().setCheckpoint(ByteString.copyFrom(checkpoint)));
    } catch (CallFailed error) {
      if ("TOO_LARGE".equals(error.failure().reason())) {
        throw new CheckpointDroppedException(
            "the request with the checkpoint is larger than the server takes");
      }
      throw new ClaimLostException(error.failure().name());
    }
    if (answer.getCheckpointDropped()) {
      throw new CheckpointDroppedException(
          "the checkpoint is larger than the server's bound; the earlier one stays");
    }
  }
}
