package idempotencyledger.client;

import io.grpc.CallCredentials;
import io.grpc.Metadata;
import io.grpc.Status;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Executor;

/** The bearer token of a file, which is read again when the file changes. */
final class TokenFile extends CallCredentials {
  private static final Metadata.Key<String> AUTHORIZATION =
      Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);

  private final Path path;
  private List<Object> seen = List.of();
  private String token = "";

  TokenFile(Path path) {
    this.path = path;
  }

  /** The token as the file has it now. */
  synchronized String token() throws IOException {
    BasicFileAttributes found = Files.readAttributes(path, BasicFileAttributes.class);
    List<Object> now =
        Arrays.asList(found.lastModifiedTime(), found.size(), String.valueOf(found.fileKey()));
    if (!seen.equals(now)) {
      token = Files.readString(path).strip();
      seen = now;
    }
    return token;
  }

  @Override
  public void applyRequestMetadata(RequestInfo info, Executor executor, MetadataApplier applier) {
    Metadata headers = new Metadata();
    try {
      headers.put(AUTHORIZATION, "Bearer " + token());
    } catch (IOException e) {
      applier.fail(Status.UNAVAILABLE.withDescription("the token file cannot be read"));
      return;
    }
    applier.apply(headers);
  }
}
