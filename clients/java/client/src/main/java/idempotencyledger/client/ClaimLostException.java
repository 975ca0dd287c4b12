package idempotencyledger.client;

/** The lease of the claim has ended, or the ledger has refused to renew it: write nothing more. */
public final class ClaimLostException extends LedgerException {
  private static final long serialVersionUID = 1L;

  /** Why the claim is lost. */
  private final String reason;

  ClaimLostException(String reason) {
    super("the claim is lost (" + reason + "): another attempt may be running");
    this.reason = reason;
  }

  /**
   * Why the claim is lost.
   *
   * @return {@code LEASE_OVER} where the lease ended by this process's clock, else the ledger's
   *     reason, such as {@code LEASE_LOST}
   */
  public String reason() {
    return reason;
  }
}
