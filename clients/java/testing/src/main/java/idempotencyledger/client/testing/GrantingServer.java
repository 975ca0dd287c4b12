package idempotencyledger.client.testing;

import com.google.protobuf.ByteString;
import com.google.protobuf.Duration;
import idempotencyledger.client.proto.Acquired;
import idempotencyledger.client.proto.Advice;
import idempotencyledger.client.proto.ClaimRequest;
import idempotencyledger.client.proto.ClaimResponse;
import idempotencyledger.client.proto.CompleteRequest;
import idempotencyledger.client.proto.CompleteResponse;
import idempotencyledger.client.proto.Completed;
import idempotencyledger.client.proto.EntryKey;
import idempotencyledger.client.proto.FailRequest;
import idempotencyledger.client.proto.FailResponse;
import idempotencyledger.client.proto.InProgress;
import idempotencyledger.client.proto.LedgerServiceGrpc;
import idempotencyledger.client.proto.Parked;
import idempotencyledger.client.proto.ReleaseRequest;
import idempotencyledger.client.proto.ReleaseResponse;
import idempotencyledger.client.proto.StoreRequest;
import idempotencyledger.client.proto.StoreResponse;
import idempotencyledger.client.proto.Stored;
import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Server;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;

/**
 * Grants what is not completed, and answers what is: no ledger, and enough for the wiring of
 * adapters.
 */
public final class GrantingServer extends LedgerServiceGrpc.LedgerServiceImplBase {
  /** What was asked, in its order. */
  public final List<Object> asked = new CopyOnWriteArrayList<>();

  /** Every message is parked. */
  public volatile boolean refusing;

  /** Every message is in progress elsewhere, under a lease of a minute. */
  public volatile boolean heldElsewhere;

  private final Map<EntryKey, ByteString> completed = new ConcurrentHashMap<>();

  /** Starts it on a free port of this machine. */
  public static Server start(GrantingServer service) throws IOException {
    return Grpc.newServerBuilderForPort(0, InsecureServerCredentials.create())
        .addService(service)
        .build()
        .start();
  }

  @Override
  public void claim(ClaimRequest request, StreamObserver<ClaimResponse> to) {
    asked.add(request);
    ByteString result = completed.get(request.getKey());
    ClaimResponse.Builder answer = ClaimResponse.newBuilder();
    if (refusing) {
      answer.setAdvice(Advice.ADVICE_DEAD_LETTER).setParked(Parked.getDefaultInstance());
    } else if (heldElsewhere) {
      answer.setAdvice(Advice.ADVICE_RETRY_LATER).setInProgress(InProgress.getDefaultInstance());
      answer.setRetryAfter(Duration.newBuilder().setSeconds(60));
    } else if (result == null) {
      answer.setAdvice(Advice.ADVICE_PROCESS);
      answer.setAcquired(
          Acquired.newBuilder().setToken(7).setLease(Duration.newBuilder().setSeconds(30)));
    } else {
      answer.setAdvice(Advice.ADVICE_ACK).setCompleted(Completed.newBuilder().setResult(result));
    }
    answer(to, answer.build());
  }

  @Override
  public void complete(CompleteRequest request, StreamObserver<CompleteResponse> to) {
    asked.add(request);
    completed.put(request.getKey(), request.getResult());
    answer(to, CompleteResponse.newBuilder().setAdvice(Advice.ADVICE_ACK).build());
  }

  @Override
  public void fail(FailRequest request, StreamObserver<FailResponse> to) {
    asked.add(request);
    answer(to, FailResponse.newBuilder().setAdvice(Advice.ADVICE_DEAD_LETTER).build());
  }

  @Override
  public void release(ReleaseRequest request, StreamObserver<ReleaseResponse> to) {
    asked.add(request);
    answer(to, ReleaseResponse.newBuilder().setAdvice(Advice.ADVICE_RETRY_LATER).build());
  }

  @Override
  public void store(StoreRequest request, StreamObserver<StoreResponse> to) {
    asked.add(request);
    StoreResponse.Builder kept = StoreResponse.newBuilder().setAdvice(Advice.ADVICE_ACK);
    answer(to, kept.setStored(Stored.getDefaultInstance()).build());
  }

  private static <T> void answer(StreamObserver<T> to, T message) {
    to.onNext(message);
    to.onCompleted();
  }
}
