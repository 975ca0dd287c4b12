package idempotencyledger.client;

import java.util.Map;
import java.util.Optional;
import java.util.regex.Pattern;

/**
 * The name of a message: source and id of its producer, the same on each delivery. Keys are
 * compared as bytes.
 *
 * <p>A message whose source or id is empty, too long or has a control character is at fault itself:
 * it is not sent to the ledger, and its outcome is DEAD_LETTER.
 *
 * @param source the producer, 1 to 256 bytes of UTF-8
 * @param id unique within its source, 1 to 512 bytes of UTF-8
 * @param replayRun the replay that the delivery belongs to, at most 64 of {@code A-Z a-z 0-9 . _
 *     -}; empty for live deliveries
 */
public record Key(String source, String id, String replayRun) {
  private static final Pattern RUN = Pattern.compile("[A-Za-z0-9._-]{0,64}");

  /**
   * The key of a delivery.
   *
   * @param source the producer
   * @param id unique within its source
   * @param replayRun the replay that the delivery belongs to; empty for live deliveries
   * @throws InvalidFieldException where the program is at fault: a part that is null, a replay run
   */
  public Key {
    if (source == null || id == null) {
      throw new InvalidFieldException(source == null ? "key.source" : "key.id", "must not be null");
    }
    if (replayRun == null || !RUN.matcher(replayRun).matches()) {
      throw new InvalidFieldException(
          "key.replay_run", "at most 64 characters of A-Z, a-z, 0-9, '.', '_' and '-' are allowed");
    }
  }

  /**
   * The key of a live delivery.
   *
   * @param source the producer
   * @param id the message's id, unique within its source
   * @return the key
   * @throws InvalidFieldException where a part is null
   */
  public static Key of(String source, String id) {
    return new Key(source, id, "");
  }

  /**
   * The key of a CloudEvent by its attributes {@code source} and {@code id}. With the SDK of
   * CloudEvents: {@code Key.of(event.getSource().toString(), event.getId())}.
   *
   * @param attributes the event's attributes by their names, as texts or URIs; one that is missing
   *     makes the message one at fault, whose outcome is DEAD_LETTER
   * @return the key
   */
  public static Key fromCloudEvent(Map<String, ?> attributes) {
    Object source = attributes.get("source");
    Object id = attributes.get("id");
    return of(source == null ? "" : source.toString(), id == null ? "" : id.toString());
  }

  /**
   * The same message in a replay.
   *
   * @param replayRun the run that an operator has created
   * @return the key
   * @throws InvalidFieldException where the run's name is not allowed
   */
  public Key inReplayRun(String replayRun) {
    return new Key(source, id, replayRun);
  }

  /**
   * Why the ledger would refuse the message.
   *
   * @return the fault; empty where the key is right
   */
  public Optional<InvalidFieldException> fault() {
    try {
      Texts.checked("key.source", source, 256);
      Texts.checked("key.id", id, 512);
      return Optional.empty();
    } catch (InvalidFieldException fault) {
      return Optional.of(fault);
    }
  }
}
