package idempotencyledger.client;

import java.nio.file.Path;
import java.util.concurrent.CountDownLatch;

/** Another process that opens a spool, and begins an effect that never ends. */
final class SpoolProcess {
  private SpoolProcess() {}

  public static void main(String[] arguments) {
    Spool spool;
    try {
      spool = Spool.open(Path.of(arguments[0]));
    } catch (SpoolFailedException error) {
      System.out.println(error.getMessage());
      return;
    }
    spool.process(
        SpoolScript.AWAY,
        "payments",
        SpoolScript.DELIVERY,
        () -> {
          System.out.println("runs");
          new CountDownLatch(1).await();
          return null;
        });
  }

  static Process start(Path path) throws java.io.IOException {
    String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
    String places = System.getProperty("java.class.path");
    return new ProcessBuilder(java, "-cp", places, SpoolProcess.class.getName(), path.toString())
        .redirectErrorStream(true)
        .start();
  }
}
