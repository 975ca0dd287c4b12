package idempotencyledger.client;

/**
 * {@link Claim#announce()} was refused before anything was sent: the claim's policy would not park
 * the message.
 *
 * <p>Set {@code on_expiry = "PARK_IF_STARTED"} (or {@code PARK}) in the consumer's policy. Where a
 * handler lets this error pass, the claim is given back for 5 seconds.
 */
public final class NotProtectedException extends LedgerException {
  private static final long serialVersionUID = 1L;

  NotProtectedException(String onExpiry) {
    super(
        "on_expiry of this claim is "
            + onExpiry
            + ": an announced effect would not be parked;"
            + " set on_expiry = PARK_IF_STARTED in the consumer's policy");
  }
}
