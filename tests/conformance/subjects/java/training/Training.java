import com.google.gson.JsonParser;
import com.google.protobuf.Duration;
import idempotencyledger.client.proto.Acquired;
import idempotencyledger.client.proto.Advice;
import idempotencyledger.client.proto.ClaimRequest;
import idempotencyledger.client.proto.ClaimResponse;
import idempotencyledger.client.proto.CompleteRequest;
import idempotencyledger.client.proto.CompleteResponse;
import idempotencyledger.client.proto.FailRequest;
import idempotencyledger.client.proto.FailResponse;
import idempotencyledger.client.proto.LedgerServiceGrpc;
import idempotencyledger.client.proto.ReleaseRequest;
import idempotencyledger.client.proto.ReleaseResponse;
import idempotencyledger.client.proto.RenewRequest;
import idempotencyledger.client.proto.RenewResponse;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.InsecureServerCredentials;
import io.grpc.ManagedChannel;
import io.grpc.Server;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.health.v1.HealthCheckResponse;
import io.grpc.protobuf.services.HealthStatusManager;
import io.grpc.stub.StreamObserver;
import io.opentelemetry.api.GlobalOpenTelemetry;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.catalina.Context;
import org.apache.catalina.startup.Tomcat;

/**
 * Uses what the subjects use of other people's code, so that the JVM archives its classes: see
 * build.py.
 */
public final class Training {
  private Training() {}

  public static void main(String[] arguments) throws Exception {
    JsonParser.parseString("{\"do\": [1.5, \"x\", null, true]}").getAsJsonObject();
    GlobalOpenTelemetry.getMeter("m").histogramBuilder("h").build().record(1);
    GlobalOpenTelemetry.getTracer("t").spanBuilder("s").startSpan().end();
    calls();
    requests();
    System.exit(0);
  }

  /** The first renewal of a process. */
  public static final CountDownLatch RENEWED = new CountDownLatch(1);

  /** A server that grants everything, for a short time. */
  public static Server server() throws IOException {
    HealthStatusManager health = new HealthStatusManager();
    health.setStatus("accepting", HealthCheckResponse.ServingStatus.SERVING);
    return Grpc.newServerBuilderForPort(0, InsecureServerCredentials.create())
        .addService(new Ledger())
        .addService(health.getHealthService())
        .directExecutor()
        .build()
        .start();
  }

  private static void calls() throws Exception {
    Server server = server();
    ManagedChannel channel =
        Grpc.newChannelBuilder(
                "dns:///127.0.0.1:" + server.getPort(), InsecureChannelCredentials.create())
            .defaultServiceConfig(
                Map.of(
                    "loadBalancingConfig",
                    List.of(Map.of("round_robin", Map.of())),
                    "healthCheckConfig",
                    Map.of("serviceName", "accepting")))
            .directExecutor()
            .build();
    LedgerServiceGrpc.LedgerServiceBlockingStub stub = LedgerServiceGrpc.newBlockingStub(channel);
    for (int at = 0; at < 3; at++) {
      stub.withDeadlineAfter(5, TimeUnit.SECONDS).claim(ClaimRequest.getDefaultInstance());
      stub.renew(RenewRequest.getDefaultInstance());
      stub.complete(CompleteRequest.getDefaultInstance());
      stub.fail(FailRequest.getDefaultInstance());
    }
    try {
      stub.release(ReleaseRequest.getDefaultInstance());
      throw new IllegalStateException("it was not refused");
    } catch (StatusRuntimeException refused) {
      server.shutdownNow();
    }
    channel.shutdown();
  }

  private static final class Ledger extends LedgerServiceGrpc.LedgerServiceImplBase {
    private static <T> void answer(StreamObserver<T> to, T message) {
      to.onNext(message);
      to.onCompleted();
    }

    @Override
    public void claim(ClaimRequest request, StreamObserver<ClaimResponse> to) {
      answer(
          to,
          ClaimResponse.newBuilder()
              .setAdvice(Advice.ADVICE_PROCESS)
              .setAcquired(
                  Acquired.newBuilder()
                      .setToken(1)
                      .setLease(Duration.newBuilder().setNanos(300_000_000)))
              .build());
    }

    @Override
    public void renew(RenewRequest request, StreamObserver<RenewResponse> to) {
      RENEWED.countDown();
      Duration lease = Duration.newBuilder().setNanos(300_000_000).build();
      answer(to, RenewResponse.newBuilder().setLease(lease).build());
    }

    @Override
    public void complete(CompleteRequest request, StreamObserver<CompleteResponse> to) {
      answer(to, CompleteResponse.newBuilder().setAdvice(Advice.ADVICE_ACK).build());
    }

    @Override
    public void fail(FailRequest request, StreamObserver<FailResponse> to) {
      answer(to, FailResponse.getDefaultInstance());
    }

    @Override
    public void release(ReleaseRequest request, StreamObserver<ReleaseResponse> to) {
      to.onError(Status.UNAVAILABLE.asRuntimeException());
    }
  }

  private static void requests() throws Exception {
    Tomcat tomcat = new Tomcat();
    tomcat.setBaseDir(System.getProperty("java.io.tmpdir"));
    tomcat.setPort(0);
    Context context = tomcat.addContext("", null);
    Tomcat.addServlet(context, "echo", new Echo()).addMapping("/*");
    tomcat.getConnector();
    tomcat.start();
    HttpClient.newHttpClient()
        .send(
            HttpRequest.newBuilder(
                    URI.create("http://127.0.0.1:" + tomcat.getConnector().getLocalPort() + "/x"))
                .POST(HttpRequest.BodyPublishers.ofString("body"))
                .build(),
            HttpResponse.BodyHandlers.ofString());
    tomcat.stop();
  }

  private static final class Echo extends HttpServlet {
    private static final long serialVersionUID = 1L;

    @Override
    protected void doPost(HttpServletRequest request, HttpServletResponse response)
        throws IOException {
      byte[] body = request.getInputStream().readAllBytes();
      response.setHeader("X", new String(body, StandardCharsets.UTF_8));
      response.getOutputStream().write(body);
    }
  }
}
