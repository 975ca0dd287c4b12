package idempotencyledger.client;

import java.net.InetAddress;
import java.net.UnknownHostException;

/** Who asks, for people who read the ledger. */
final class Owner {
  private static final int HOST_LENGTH = 100;

  private Owner() {}

  /** Host and process. */
  static String of(long process) {
    String host = System.getenv("HOSTNAME");
    if (host == null || host.isEmpty()) {
      try {
        host = InetAddress.getLocalHost().getHostName();
      } catch (UnknownHostException e) {
        host = "unknown-host";
      }
    }
    String plain = host.replaceAll("[^!-~]", "?");
    return plain.substring(0, Math.min(plain.length(), HOST_LENGTH)) + "/" + process;
  }
}
