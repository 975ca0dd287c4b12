package idempotencyledger.client;

import io.grpc.EquivalentAddressGroup;
import io.grpc.NameResolver;
import io.grpc.NameResolverProvider;
import io.grpc.NameResolverRegistry;
import io.grpc.StatusOr;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.net.URI;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Set;

/**
 * The targets {@code ipv4:A:PORT,B:PORT} and {@code ipv6:…}, which gRPC's libraries in C have and
 * its Java library lacks. They are given to gRPC under a scheme of this package, so that no
 * resolver of the application is replaced.
 */
final class AddressList extends NameResolverProvider {
  private static final String SCHEME = "idempotency-ledger-list";

  static {
    NameResolverRegistry.getDefaultRegistry().register(new AddressList());
  }

  private AddressList() {}

  /** It is a list of addresses. */
  static boolean is(String target) {
    return target.startsWith("ipv4:") || target.startsWith("ipv6:");
  }

  /** The target as gRPC's Java library takes it. */
  static String target(String target) {
    if (!is(target)) {
      return target;
    }
    addresses(target.substring(5)); // Checks it.
    return SCHEME + ":///" + target.substring(5).replace("[", "%5B").replace("]", "%5D");
  }

  static List<EquivalentAddressGroup> addresses(String list) {
    List<EquivalentAddressGroup> found = new ArrayList<>();
    for (String each : list.split(",", -1)) {
      int colon = each.lastIndexOf(':');
      String host = colon < 0 ? "" : each.substring(0, colon).replaceAll("[\\[\\]]", "");
      String port = each.substring(colon + 1);
      if (!host.matches("[0-9a-fA-F:.]+") || !port.matches("[0-9]{1,5}")) {
        throw new InvalidFieldException(
            "endpoint", "a list of addresses is ipv4:ADDRESS:PORT,… or ipv6:[ADDRESS]:PORT,…");
      }
      found.add(new EquivalentAddressGroup(new InetSocketAddress(host, Integer.parseInt(port))));
    }
    return found;
  }

  @Override
  protected boolean isAvailable() {
    return true;
  }

  @Override
  protected int priority() {
    return 5;
  }

  @Override
  public String getDefaultScheme() {
    return SCHEME;
  }

  @Override
  public Collection<Class<? extends SocketAddress>> getProducedSocketAddressTypes() {
    return Set.of(InetSocketAddress.class);
  }

  @Override
  public NameResolver newNameResolver(URI target, NameResolver.Args args) {
    if (!SCHEME.equals(target.getScheme())) {
      return null;
    }
    List<EquivalentAddressGroup> addresses = addresses(target.getPath().substring(1));
    return new NameResolver() {
      @Override
      public String getServiceAuthority() {
        // The list is not a name: as one it would be sent to the servers, and no call would get
        // through.
        return "ledger";
      }

      @Override
      public void start(Listener2 listener) {
        listener.onResult(
            ResolutionResult.newBuilder()
                .setAddressesOrError(StatusOr.fromValue(addresses))
                .build());
      }

      @Override
      public void shutdown() {}
    };
  }
}
