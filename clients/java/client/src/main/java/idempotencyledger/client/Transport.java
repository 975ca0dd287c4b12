package idempotencyledger.client;

import io.grpc.MethodDescriptor;
import java.util.OptionalLong;
import java.util.concurrent.CompletableFuture;

/** Sends calls. */
interface Transport {
  /**
   * Sends a call.
   *
   * @param timeout nanoseconds until its deadline
   * @param repeat it waits for a connection until its deadline, rather than fail without one
   * @return its answer; it fails with {@link CallFailed}
   */
  <Q, R> CompletableFuture<R> start(
      MethodDescriptor<Q, R> method, Q request, long timeout, boolean repeat);

  /** Connects now where the next try of a lost connection is not due yet. */
  default void reconnect() {}

  /** Nothing can be sent any more. */
  default void close() {}

  /** An answer, and the instant at which its try was sent. */
  record Answer<R>(R message, long sent) {}

  /** Sends the identical request until an answer decides, within the budget. */
  default <Q, R> Answer<R> repeated(
      World world, MethodDescriptor<Q, R> method, Q request, long budget, long timeout)
      throws CallFailed {
    Attempts attempts = new Attempts(world, budget, timeout);
    while (true) {
      long sent = world.now();
      try {
        CompletableFuture<R> answer = start(method, request, attempts.timeout(), attempts.repeat());
        return new Answer<>(Waiting.forAnswer(answer, this::reconnect), sent);
      } catch (CallFailed error) {
        OptionalLong pause = attempts.pauseAfter(error.failure());
        if (pause.isEmpty()) {
          throw error;
        }
        world.sleeper().accept(pause.getAsLong());
        reconnect();
      }
    }
  }
}
