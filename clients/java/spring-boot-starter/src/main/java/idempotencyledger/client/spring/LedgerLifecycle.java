package idempotencyledger.client.spring;

import idempotencyledger.client.Ledger;
import java.time.Duration;
import org.springframework.context.SmartLifecycle;

/**
 * Closes the client after web servers and listeners of brokers, whose phases are the highest ones,
 * have stopped.
 */
final class LedgerLifecycle implements SmartLifecycle {
  private final Ledger ledger;
  private final Duration grace;

  LedgerLifecycle(Ledger ledger, Duration grace) {
    this.ledger = ledger;
    this.grace = grace;
  }

  @Override
  public void start() {
    // It connects with its first call.
  }

  @Override
  public void stop() {
    ledger.close(grace);
  }

  @Override
  public boolean isRunning() {
    return !ledger.closing();
  }

  @Override
  public int getPhase() {
    return 0;
  }
}
