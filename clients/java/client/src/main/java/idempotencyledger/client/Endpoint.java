package idempotencyledger.client;

import io.grpc.ChannelCredentials;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.TlsChannelCredentials;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.UnaryOperator;

/**
 * How the servers are reached: the endpoint, TLS, and how calls are spread over several servers.
 *
 * @param named the endpoint as the option or the variable names it, for people
 * @param target the target as gRPC takes it
 * @param tls whether it is reached by TLS
 */
record Endpoint(
    String named,
    String target,
    boolean tls,
    Path tokenFile,
    Path caFile,
    Path certificate,
    Path privateKey) {
  private static final String DEFAULT = "127.0.0.1:50051";

  /**
   * Of deploy/clients/service-config.json what spreads the calls. Its retries are left out, since
   * this package repeats by itself what gRPC does not; and so is its timeout, which would end a
   * Claim that waits.
   */
  private static final Map<String, Object> SERVICE_CONFIG =
      Map.of(
          "loadBalancingConfig",
          List.of(Map.of("round_robin", Map.of())),
          "healthCheckConfig",
          Map.of("serviceName", "accepting"));

  /**
   * The options with what the environment adds; InvalidFieldException where they contradict each
   * other.
   */
  static Endpoint resolved(
      String endpoint,
      Path tokenFile,
      Path caFile,
      Path certificate,
      Path privateKey,
      UnaryOperator<String> environment) {
    String address = endpoint != null ? endpoint : environment.apply("LEDGER_ENDPOINT");
    String found = address == null || address.isEmpty() ? DEFAULT : address;
    Path token = tokenFile != null ? tokenFile : path(environment.apply("LEDGER_TOKEN_FILE"));
    Path authorities = caFile != null ? caFile : path(environment.apply("LEDGER_CA_FILE"));
    boolean plain = found.startsWith("http://");
    boolean tls = found.startsWith("https://") || authorities != null;
    if (plain && authorities != null) {
      throw new InvalidFieldException(
          "endpoint", found + " is reached without TLS, but a ca_file is given");
    }
    String target = target(found.replaceFirst("^https?://", ""), !found.contains("://"));
    if (tls && AddressList.is(target)) {
      throw new InvalidFieldException(
          "endpoint",
          "no certificate is for the list " + target + "; use https://NAME:PORT of all servers");
    }
    if (token != null && !tls) {
      throw new InvalidFieldException(
          "token_file", "the token would be sent in the clear to " + found + "; use https://");
    }
    if ((certificate == null) != (privateKey == null)) {
      throw new InvalidFieldException(
          "client_cert_file", "a certificate and its key are given together");
    }
    if (certificate != null && !tls) {
      throw new InvalidFieldException(
          "client_cert_file", found + " is reached without TLS; use https://");
    }
    return new Endpoint(found, target, tls, token, authorities, certificate, privateKey);
  }

  /** The channel, which connects with its first call. */
  ManagedChannel channel() {
    ManagedChannelBuilder<?> builder =
        Grpc.newChannelBuilder(AddressList.target(target), credentials())
            .defaultServiceConfig(SERVICE_CONFIG)
            .disableServiceConfigLookUp()
            // A connection that is gone without a sign is noticed after 25 s rather than by TCP
            // after a quarter of an hour.
            .keepAliveTime(20, TimeUnit.SECONDS)
            .keepAliveTimeout(5, TimeUnit.SECONDS)
            // What runs on the network's thread completes a future or schedules a task, and never
            // waits.
            .directExecutor()
            .userAgent("idempotency-ledger-client-java");
    return builder.build();
  }

  private ChannelCredentials credentials() {
    if (!tls) {
      return InsecureChannelCredentials.create();
    }
    TlsChannelCredentials.Builder credentials = TlsChannelCredentials.newBuilder();
    try {
      if (caFile != null) {
        credentials.trustManager(caFile.toFile());
      }
    } catch (IOException e) {
      throw unreadable("ca_file", caFile, e);
    }
    try {
      if (certificate != null) {
        credentials.keyManager(certificate.toFile(), privateKey.toFile());
      }
    } catch (IOException e) {
      throw unreadable("client_cert_file", certificate, e);
    }
    return credentials.build();
  }

  /**
   * A bare HOST:PORT as a target that finds every server behind the name; targets of gRPC as they
   * are.
   */
  private static String target(String endpoint, boolean bare) {
    String address = endpoint.replaceFirst("/+$", "");
    if (bare && address.matches("(?s)(dns|unix|unix-abstract|ipv4|ipv6|xds):.*")
        || bare && address.contains("/")) {
      return address;
    }
    if (endpoint.contains("://")) {
      return endpoint;
    }
    if (!address.matches("[^:/\\s]+:[0-9]{1,5}|\\[[0-9a-fA-F:.]+\\]:[0-9]{1,5}")) {
      throw new InvalidFieldException(
          "endpoint",
          "\"" + endpoint + "\" is not HOST:PORT, http(s)://HOST:PORT or a target of gRPC");
    }
    return "dns:///" + address;
  }

  private static InvalidFieldException unreadable(String field, Path file, IOException error) {
    return new InvalidFieldException(
        field, file + " cannot be read: " + error.getClass().getSimpleName());
  }

  private static Path path(String text) {
    return text == null || text.isEmpty() ? null : Path.of(text);
  }
}
