import type { Claim, Result } from '../claim.js';
import { GiveBack, InvalidField, LedgerError } from '../errors.js';
import { Ledger, reportOf } from '../ledger.js';
import type { Message } from '../message.js';
import { Advice, type Outcome } from '../outcome.js';
import type { Report } from '../report.js';
import { aborted, sleep } from '../timing.js';
import { type Named, NoId } from './name.js';

const CONCURRENCY_MAX = 1_000;
const GRACE = 20_000;
const TEXT_MAX = 300; // characters of an error of a broker's client in the log

/** What the consumers of all brokers take. */
export interface ConsumerOptions {
  /** The client of the ledger. It must stay open until `run` has ended; its `log` gets what this consumer has to say. */
  ledger: Ledger;
  /** How many messages are processed at the same time, 1 (default) to 1000. */
  concurrency?: number | undefined;
  /** For how many milliseconds `run` waits for running handlers after its signal was aborted; 20 seconds by default. */
  graceMs?: number | undefined;
}

/** What to do with a delivery. */
export interface Verdict {
  readonly advice: Advice;
  /** With `RETRY_LATER`: how many milliseconds to wait at least. Else 0. */
  readonly delayMs: number;
  /** Why, for a dead letter. Empty where there is no reason. */
  readonly reason: string;
  /** False: nothing was done with the delivery since no more may begin; give it back without a delay. */
  readonly begun: boolean;
}

/**
 * In place of a handler: each message is stored in the ledger's inbox, and acknowledged when it is kept. `Ledger.work` processes
 * it later. A message that the ledger does not take is treated as one that was not processed.
 */
export const STORE: unique symbol = Symbol('STORE');

const NOT_BEGUN: Verdict = { advice: Advice.RETRY_LATER, delayMs: 0, reason: '', begun: false };

/** Throws {@link InvalidField} for one of these options that is beyond its bound. */
export function checkConsumer(options: ConsumerOptions & { handler: unknown; named?: unknown }): void {
  const { ledger, concurrency = 1, graceMs = GRACE, handler, named } = options;
  if (!(ledger instanceof Ledger)) throw new InvalidField('ledger', 'must be a Ledger');
  if (handler !== STORE && typeof handler !== 'function')
    throw new InvalidField('handler', 'must be a function of the claim and the message, or STORE');
  if (named !== undefined && typeof named !== 'function') throw new InvalidField('named', 'must be a function');
  if (!Number.isInteger(concurrency) || concurrency < 1 || concurrency > CONCURRENCY_MAX) {
    throw new InvalidField('concurrency', `is ${concurrency}; 1 to ${CONCURRENCY_MAX} are allowed`);
  }
  if (!(graceMs >= 0)) throw new InvalidField('graceMs', `${graceMs} ms is not a time`);
}

/** Throws {@link InvalidField} for a text that is not one, or is empty. */
export function checkText(field: string, text: unknown): void {
  if (typeof text !== 'string' || text === '') throw new InvalidField(field, 'must be a text that is not empty');
}

/** What a broker's client said, for the log: one line. */
export function textOf(error: unknown): string {
  const text = error instanceof Error ? `${error.name}: ${error.message}` : typeof error;
  return text.replace(/\s+/g, ' ').slice(0, TEXT_MAX);
}

/** Reads the property again each time: the compiler assumes that a property that was false stays false. */
function isAborted(signal: AbortSignal): boolean {
  return signal.aborted;
}

/** Runs deliveries for one `run` of a consumer: a bounded number at the same time, until nothing more may be taken. */
export class Pool {
  /** How many deliveries run at the same time. */
  readonly concurrency: number;
  readonly #ledger: Ledger;
  readonly #graceMs: number;
  readonly #report: Report;
  readonly #end = new AbortController();
  readonly #running = new Set<Promise<void>>();
  readonly #woken = new Set<() => void>();
  #free: number;
  #failure: { readonly error: unknown } | undefined;

  /** `place` is where the deliveries come from, for the log: `queue orders`. */
  constructor(
    options: ConsumerOptions,
    readonly place: string,
    private readonly stop: AbortSignal,
  ) {
    if (!(stop instanceof AbortSignal)) {
      throw new InvalidField('stop', 'must be an AbortSignal, such as the `signal` of a Shutdown');
    }
    this.#ledger = options.ledger;
    this.#report = reportOf(options.ledger);
    this.concurrency = this.#free = options.concurrency ?? 1;
    this.#graceMs = options.graceMs ?? GRACE;
    stop.addEventListener('abort', this.#ended, { once: true });
    if (stop.aborted) this.#ended();
  }

  /** Aborted when nothing more may be taken. */
  get signal(): AbortSignal {
    return this.#end.signal;
  }

  /** Nothing more may be taken. */
  get ended(): boolean {
    return this.#end.signal.aborted;
  }

  /** Waits for a free slot, and takes `most` of those that are free. Resolves to their number: 0 where the pool has ended. */
  async acquire(most: number = CONCURRENCY_MAX): Promise<number> {
    while (this.#free === 0 && !this.ended) {
      await new Promise<void>((resolve) => this.#woken.add(resolve));
    }
    if (this.ended) return 0;
    const taken = Math.min(most, this.#free);
    this.#free -= taken;
    return taken;
  }

  /** Gives back slots that were not used. */
  release(slots: number): void {
    this.#free += slots;
    if (slots > 0) this.#wake();
  }

  /** Runs a delivery in a slot that was acquired, and gives the slot back. What it throws ends the pool. */
  go(deliver: () => Promise<void>): void {
    const run = async (): Promise<void> => {
      try {
        await deliver();
      } catch (error) {
        this.fail(error);
      }
      this.release(1);
    };
    const running = run().finally(() => this.#running.delete(running));
    this.#running.add(running);
  }

  /** Ends the pool with an error, with which `wait` rejects. The first one counts. */
  fail(error: unknown): void {
    this.#failure ??= { error };
    this.#ended();
  }

  /** Resolves when nothing more may be taken. */
  async end(): Promise<void> {
    await aborted(this.signal);
  }

  /** Waits; resolves to false where the pool ends meanwhile. */
  async sleep(milliseconds: number): Promise<boolean> {
    await sleep(milliseconds, this.signal);
    return !this.ended;
  }

  /**
   * Waits for the running deliveries, at most for the grace, once the pool has ended. Rejects with the error with which the
   * pool has failed, and where deliveries still run.
   */
  async wait(): Promise<void> {
    if (this.#running.size > 0) {
      const over = new AbortController();
      const all = Promise.all(this.#running).then(() => over.abort());
      await Promise.race([all, sleep(this.#graceMs, over.signal)]);
    }
    if (this.#failure) throw this.#failure.error;
    if (this.#running.size > 0) {
      throw new LedgerError(
        `${this.place}: ${this.#running.size} handlers still run ${this.#graceMs} ms after the stop`,
      );
    }
  }

  /** Takes the listener for the signal back. */
  close(): void {
    this.stop.removeEventListener('abort', this.#ended);
  }

  /**
   * Processes a delivery. One without a name is a dead letter; what the program has wrong ends the pool. What has not begun
   * when `stopping` is aborted is given back.
   */
  async process(
    stopping: AbortSignal,
    name: () => Named,
    body: Uint8Array,
    handler: (claim: Claim, signal: AbortSignal) => Promise<Result> | Result,
  ): Promise<Verdict> {
    if (isAborted(stopping)) return NOT_BEGUN;
    const state = { given: false };
    const guarded = (claim: Claim, signal: AbortSignal): Promise<Result> | Result => {
      state.given = isAborted(stopping);
      // The claim has waited for the ledger, and nothing was begun.
      if (state.given) throw new GiveBack('CLOSING');
      return handler(claim, signal);
    };
    const verdict = await this.#delivered(stopping, name, ({ key, occurredAt }) =>
      this.#ledger.process(key, guarded, { body, occurredAt }),
    );
    return state.given ? NOT_BEGUN : verdict;
  }

  /** Stores a delivery in the inbox. What becomes of it otherwise is as of `process`. */
  async store(stopping: AbortSignal, name: () => Named, message: Message): Promise<Verdict> {
    if (isAborted(stopping)) return NOT_BEGUN;
    return this.#delivered(stopping, name, ({ key, occurredAt }) => this.#ledger.store(key, message, { occurredAt }));
  }

  async #delivered(
    stopping: AbortSignal,
    name: () => Named,
    call: (named: Named) => Promise<Outcome>,
  ): Promise<Verdict> {
    try {
      const { advice, delayMs, reason = '' } = await call(name());
      return { advice, delayMs, reason, begun: true };
    } catch (error) {
      if (error instanceof NoId) {
        this.say('a message without an id is dead-lettered', error.message);
        return { advice: Advice.DEAD_LETTER, delayMs: 0, reason: 'NO_ID', begun: true };
      }
      // Nothing was sent: the program is at fault, or the ledger is closed.
      if (!isAborted(stopping)) this.fail(error);
      return NOT_BEGUN;
    }
  }

  /** Logs a line, at most one a second of each `what`. Neither text may have a payload, a key or an id. */
  say(what: string, detail: string): void {
    this.#report.line(`${this.place}: ${what}`, `${this.place}: ${what}: ${detail}`);
  }

  readonly #ended = (): void => {
    this.#end.abort();
    this.#wake();
  };

  #wake(): void {
    for (const wake of this.#woken) wake();
    this.#woken.clear();
  }
}
