package idempotencyledger.client;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientInterceptors;
import io.grpc.ConnectivityState;
import io.grpc.Context;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.MetadataUtils;
import io.grpc.stub.StreamObserver;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/** Sends calls over a channel of gRPC. */
final class GrpcTransport implements Transport {
  // gRPC's own pauses between connections grow from 1 s to 2 min, beyond the budget of a call: they
  // are cut short.
  private static final long RECONNECT_PAUSE = TimeUnit.MILLISECONDS.toNanos(100);
  private static final long LONGEST_PAUSE = TimeUnit.SECONDS.toNanos(2);

  private final ManagedChannel channel;
  private final String endpoint;
  private final CallOptions options;
  private final Telemetry telemetry;
  private final AtomicLong reconnected = new AtomicLong(System.nanoTime());

  GrpcTransport(Endpoint endpoint, Telemetry telemetry) {
    this.channel = endpoint.channel();
    this.endpoint = endpoint.named();
    this.options =
        endpoint.tokenFile() == null
            ? CallOptions.DEFAULT
            : CallOptions.DEFAULT.withCallCredentials(new TokenFile(endpoint.tokenFile()));
    this.telemetry = telemetry;
  }

  @Override
  public <Q, R> CompletableFuture<R> start(
      MethodDescriptor<Q, R> method, Q request, long timeout, boolean repeat) {
    reconnectAfter(LONGEST_PAUSE);
    CallOptions chosen = options.withDeadlineAfter(timeout, TimeUnit.NANOSECONDS);
    if (repeat) {
      chosen = chosen.withWaitForReady();
    }
    CallOptions complete = chosen;
    CompletableFuture<R> answer = new CompletableFuture<>();
    try {
      // A fork of the caller's context: its cancellation and deadline do not end the calls of a
      // delivery (rule 18).
      Context.current()
          .fork()
          .run(
              () ->
                  ClientCalls.asyncUnaryCall(
                      traced().newCall(method, complete),
                      request,
                      new Observer<>(answer, endpoint)));
    } catch (
        RuntimeException
            error) { // Of a propagator, for example: an effect may have happened before this call.
      answer.completeExceptionally(new CallFailed(Failure.of(error).of(endpoint)));
    }
    return answer;
  }

  /** The channel with what the application propagates. */
  private Channel traced() {
    Map<String, String> propagated = telemetry.propagated();
    if (propagated.isEmpty()) {
      return channel;
    }
    Metadata headers = new Metadata();
    propagated.forEach(
        (name, value) ->
            headers.put(Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER), value));
    return ClientInterceptors.intercept(
        channel, MetadataUtils.newAttachHeadersInterceptor(headers));
  }

  @Override
  public void reconnect() {
    if (channel.getState(false) == ConnectivityState.TRANSIENT_FAILURE) {
      reconnectAfter(RECONNECT_PAUSE);
    }
  }

  private void reconnectAfter(long pause) {
    long before = reconnected.get();
    long now = System.nanoTime();
    if (now - before >= pause && reconnected.compareAndSet(before, now)) {
      channel.resetConnectBackoff();
    }
  }

  @Override
  public void close() {
    channel.shutdown();
  }

  private record Observer<R>(CompletableFuture<R> answer, String endpoint)
      implements StreamObserver<R> {
    @Override
    public void onNext(R message) {
      answer.complete(message);
    }

    @Override
    public void onError(Throwable error) {
      answer.completeExceptionally(new CallFailed(Failure.of(error).of(endpoint)));
    }

    @Override
    public void onCompleted() {
      // Without a message the call has ended with an error of gRPC; this is for a server that
      // breaks the protocol.
      answer.completeExceptionally(
          new CallFailed(Failure.of(Status.INTERNAL.asRuntimeException()).of(endpoint)));
    }
  }
}
