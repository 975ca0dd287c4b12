import { type Names, checkNames } from './known-options.js';

/** The options of a `Shutdown`. */
export interface ShutdownOptions {
  /**
   * Milliseconds from the first signal until the process ends with the code 1, whatever it is doing; 20 seconds by
   * default. Give the supervisor a longer time.
   */
  graceMs?: number | undefined;
  /** The signals that ask the process to stop; SIGTERM and SIGINT by default. */
  signals?: readonly NodeJS.Signals[] | undefined;
}

const OPTIONS: Names<ShutdownOptions> = { graceMs: true, signals: true };

/**
 * From the first SIGTERM or SIGINT on `requested` is true and `signal` is aborted. A second one, or the end of the grace,
 * ends the process with another code than 0.
 *
 * After it was requested: take no new message, and call `close` of the ledger, which waits for running effects; then let
 * the process end.
 */
export class Shutdown {
  readonly #controller = new AbortController();
  readonly #signals: readonly NodeJS.Signals[];
  readonly #graceMs: number;

  constructor(options: ShutdownOptions = {}) {
    checkNames(options, OPTIONS, 'new Shutdown');
    this.#graceMs = options.graceMs ?? 20_000;
    this.#signals = options.signals ?? ['SIGTERM', 'SIGINT'];
    for (const signal of this.#signals) process.on(signal, this.#first);
  }

  /** A signal has asked the process to stop. */
  get requested(): boolean {
    return this.#controller.signal.aborted;
  }

  /** Aborted by the first signal: for pauses and calls of the broker that can be interrupted. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Takes the handling of the signals back. The grace of a shutdown that was requested still holds. */
  dispose(): void {
    for (const signal of this.#signals) process.off(signal, this.#first);
  }

  readonly #first = (): void => {
    this.dispose();
    for (const signal of this.#signals) {
      // Without listeners the system ends the process, also where its event loop is busy.
      if (process.listenerCount(signal) > 0) process.on(signal, () => process.exit(1));
    }
    setTimeout(() => process.exit(1), this.#graceMs).unref();
    this.#controller.abort();
  };
}
