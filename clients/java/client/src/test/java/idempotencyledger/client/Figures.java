package idempotencyledger.client;

import com.sun.management.OperatingSystemMXBean;
import idempotencyledger.client.proto.ClaimRequest;
import idempotencyledger.client.proto.ClaimResponse;
import idempotencyledger.client.proto.CompleteRequest;
import idempotencyledger.client.proto.EntryKey;
import idempotencyledger.client.proto.LedgerServiceGrpc;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import java.lang.management.ManagementFactory;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.function.IntConsumer;
import java.util.stream.Collectors;

/**
 * Prints what a message costs: CPU of {@code process} with a handler that does nothing, next to
 * bare stubs that claim and complete; and threads and memory at rest. {@code figures.py} runs it
 * over a server.
 */
public final class Figures {
  private static final int MESSAGES = 3000;
  private static final String RUN = UUID.randomUUID().toString();

  private Figures() {}

  /**
   * Prints the figures.
   *
   * @param arguments the address of a server
   */
  public static void main(String[] arguments) throws InterruptedException {
    ManagedChannel channel =
        Grpc.newChannelBuilder("dns:///" + arguments[0], InsecureChannelCredentials.create())
            .build();
    LedgerServiceGrpc.LedgerServiceBlockingStub stub = LedgerServiceGrpc.newBlockingStub(channel);
    try (Ledger ledger = Ledger.builder("figures").endpoint(arguments[0]).build()) {
      IntConsumer process =
          at -> {
            Outcome done = ledger.process(Key.of("process", RUN + at), claim -> new byte[0]);
            if (done.advice() != Advice.ACK) {
              throw new IllegalStateException(done.toString());
            }
          };
      IntConsumer bare = at -> bare(stub, at);
      micros(process, 0); // The JVM compiles what is measured.
      micros(bare, 0);
      System.out.printf(
          "CPU a message: process %.0f us, bare stubs %.0f us%n",
          micros(process, 1), micros(bare, 1));
      System.out.printf(
          "CPU a message: process %.0f us, bare stubs %.0f us%n",
          micros(process, 2), micros(bare, 2));
      channel.shutdownNow().awaitTermination(10, TimeUnit.SECONDS);
      for (int at = 0; at < 100 && renews(); at++) {
        Thread.sleep(100);
      }
      System.gc();
      long heap = ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed();
      System.out.printf("at rest: heap %d KiB, threads %s%n", heap / 1024, threads());
    }
    System.exit(0);
  }

  private static void bare(LedgerServiceGrpc.LedgerServiceBlockingStub stub, int at) {
    EntryKey key =
        EntryKey.newBuilder().setConsumer("figures").setSource("bare").setId(RUN + at).build();
    ClaimResponse granted =
        stub.withDeadlineAfter(5, TimeUnit.SECONDS)
            .claim(
                ClaimRequest.newBuilder()
                    .setKey(key)
                    .setClaimId(UUID.randomUUID().toString())
                    .setOwner("figures")
                    .build());
    stub.withDeadlineAfter(5, TimeUnit.SECONDS)
        .complete(
            CompleteRequest.newBuilder()
                .setKey(key)
                .setToken(granted.getAcquired().getToken())
                .build());
  }

  private static double micros(IntConsumer message, int round) {
    OperatingSystemMXBean system =
        (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    long before = system.getProcessCpuTime();
    for (int at = 0; at < MESSAGES; at++) {
      message.accept(round * MESSAGES + at);
    }
    return (system.getProcessCpuTime() - before) / 1000.0 / MESSAGES;
  }

  private static boolean renews() {
    return threads().contains("idempotency-ledger");
  }

  /** The threads that are not of the JVM itself. */
  private static String threads() {
    return Thread.getAllStackTraces().keySet().stream()
        .filter(thread -> thread.getThreadGroup() != null)
        .filter(thread -> !thread.getThreadGroup().getName().equals("system"))
        .map(Thread::getName)
        .sorted()
        .collect(Collectors.joining(", "));
  }
}
