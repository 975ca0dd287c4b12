import { InvalidField, Steer, isOfGuard, typeName } from './errors.js';
import type { Outcome } from './outcome.js';

const EVERY = 1_000; // milliseconds between two lines of one kind
const KINDS = 1_000; // kinds that are remembered

/** Takes what the package has to say: one line, without payloads, keys, tokens and texts of a handler's errors. */
export type Log = (line: string) => void;

/** The log of one consumer: what its operators should know of deliveries, at most a line a second of each kind. */
export class Report {
  // By kind: when it was logged last, and the number of lines suppressed since. Kinds are reasons and names of types.
  readonly #last = new Map<string, { at: number; suppressed: number }>();

  constructor(
    private readonly consumer: string,
    private readonly log: Log,
    private readonly now: () => number,
  ) {}

  /**
   * Logs a call that was refused or not answered, and an error of a handler that does not steer, or that a guard has made
   * steer. Of an error its type is logged, and of the package's own `InvalidField` its text, which quotes no message.
   */
  outcome(outcome: Outcome): void {
    const { reason, detail, error, advice } = outcome;
    if (detail) this.line(String(reason), `${reason}: ${detail}: ${advice}`);
    if (error === undefined) return;
    const name = typeName(error);
    if (error instanceof Steer) {
      if (!isOfGuard(error)) return;
      this.line(`guard: ${error.reason}`, `guard: ${error.reason} (see the cause of outcome.error): ${advice}`);
    } else if (error instanceof InvalidField) {
      if (error.message === detail) return; // The fault of a key is logged above.
      this.line(name, `${name} was thrown: ${error.message}: ${advice}`);
    } else {
      this.line(name, `${name} was thrown (see outcome.error): ${advice}`);
    }
  }

  /** Logs a line, unless one of its kind was logged within the last second. */
  line(kind: string, text: string): void {
    const now = this.now();
    const last = this.#last.get(kind);
    if (last && now - last.at < EVERY) {
      last.suppressed += 1;
      return;
    }
    if (this.#last.size >= KINDS) this.#last.clear();
    this.#last.set(kind, { at: now, suppressed: 0 });
    const before = last?.suppressed ? `; ${last.suppressed} more of this kind were suppressed` : '';
    this.log(`idempotency-ledger: ${this.consumer}: ${text}${before}`);
  }
}
