package idempotencyledger.client;

import idempotencyledger.client.proto.LedgerServiceGrpc;
import idempotencyledger.client.proto.RenewResponse;
import java.util.OptionalLong;
import java.util.Set;
import java.util.concurrent.CompletionException;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/**
 * Renews one lease at a third of it, until the claim is lost or settled. It never waits: each step
 * is a task of the timer.
 */
final class Renewal {
  /** What the ledger answers where the claim is over. Any other error leaves the lease as it is. */
  private static final Set<String> OVER =
      Set.of("LEASE_LOST", "CLAIM_CLOSED", "ENTRY_NOT_FOUND", "TOKEN_FROM_FUTURE");

  /**
   * A process that stood still for this long may find its lease over although no other claim was
   * granted the key.
   */
  private static final long LATE = TimeUnit.MILLISECONDS.toNanos(100);

  private static final long LATE_BUDGET = TimeUnit.SECONDS.toNanos(1);
  private static final long SHORTEST_WAIT = TimeUnit.MILLISECONDS.toNanos(100);

  private final Hold hold;
  private final World world;
  private final Timer timer;
  private final Consumer<String> lost;
  private Timer.Task next = () -> {};
  private boolean stopped;

  /** Renews the hold; {@code lost} is given the reason where the claim is lost. */
  Renewal(Hold hold, Timer timer, Consumer<String> lost) {
    this.hold = hold;
    this.world = hold.world();
    this.timer = timer;
    this.lost = lost;
  }

  synchronized void start() {
    if (stopped) {
      return;
    }
    long until = hold.isFinal() ? hold.leaseUntil() : hold.renewAt();
    after(until - world.now(), () -> look(until));
  }

  /** Renews no longer. An answer that still arrives is ignored. */
  synchronized void stop() {
    stopped = true;
    next.cancel();
  }

  private synchronized void after(long nanos, Runnable step) {
    if (!stopped) {
      next = timer.after(Math.max(0, nanos), step);
    }
  }

  /** The instant has come, or it is long past: this process stood still. */
  private void look(long until) {
    if (hold.settled() != null) {
      return;
    }
    long now = world.now();
    boolean last = hold.isFinal();
    if (last && now >= hold.leaseUntil()) {
      end(Hold.LEASE_OVER);
    } else if (last || now < hold.renewAt()) {
      start(); // Announced or saved meanwhile, which renews too.
    } else if (now < hold.leaseUntil()) {
      send(new Attempts(world, hold.leaseUntil() - now, world.callTimeout()));
    } else if (now < until + LATE) {
      end(Hold.LEASE_OVER);
    } else {
      send(new Attempts(world, LATE_BUDGET, world.callTimeout()));
    }
  }

  private void send(Attempts attempts) {
    long sent = world.now();
    hold.transport()
        .start(
            LedgerServiceGrpc.getRenewMethod(),
            hold.renewal().build(),
            attempts.timeout(),
            attempts.repeat())
        .whenComplete((answer, error) -> after(0, () -> answered(attempts, sent, answer, error)));
  }

  private void answered(Attempts attempts, long sent, RenewResponse answer, Throwable error) {
    if (error == null) {
      hold.renewed(answer, sent);
      start();
      return;
    }
    Failure failure = failure(error);
    OptionalLong pause = attempts.pauseAfter(failure);
    if (pause.isPresent()) {
      after(
          pause.getAsLong(),
          () -> {
            hold.transport().reconnect();
            send(attempts);
          });
      return;
    }
    long left = hold.leaseUntil() - world.now();
    if (OVER.contains(String.valueOf(failure.reason()))) {
      // After a Complete the ledger has closed the claim, whether its answer has arrived here or
      // not.
      end(hold.completing() ? null : failure.reason());
    } else if (left <= 0) {
      end(Hold.LEASE_OVER);
    } else {
      // Refused for now (rights, the limit of the hold): the lease that is left still stands.
      hold.renewAt(world.now() + Math.min(left, Math.max(SHORTEST_WAIT, left / 3)));
      start();
    }
  }

  private static Failure failure(Throwable error) {
    Throwable cause = error instanceof CompletionException ? error.getCause() : error;
    return cause instanceof CallFailed failed ? failed.failure() : Failure.of(cause);
  }

  private void end(String reason) {
    synchronized (this) {
      if (stopped) {
        return;
      }
      stopped = true;
    }
    if (reason != null) {
      lost.accept(reason);
    }
  }
}
