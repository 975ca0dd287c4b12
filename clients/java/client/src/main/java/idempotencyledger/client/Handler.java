package idempotencyledger.client;

/** The effect of a message, at most one at a time. */
@FunctionalInterface
public interface Handler {
  /**
   * Has the effect. It returns when the effect has happened: the message is completed then. Work
   * that still runs in another thread is waited for here.
   *
   * @param claim the right to process the message
   * @return the result, which later deliveries are answered: at most 16 KiB by default; null or no
   *     bytes where there is none
   * @throws Exception {@link Retry}, {@link Terminal}, {@link Park}, {@link Doubtful} or {@link
   *     GiveBack} to say how the attempt ended; any other error means what {@link
   *     LedgerBuilder#unexpected} says
   */
  byte[] handle(Claim claim) throws Exception;
}
