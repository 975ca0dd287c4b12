/**
 * Effects without a claim, while the ledger cannot be reached: written down before and after, and reconciled later.
 *
 * Work stops while the ledger is away, unless a consumer chooses otherwise. docs/away.md of the ledger says when that is
 * right, and describes the file: `idempotency-ledger entries reconcile FILE` brings it in afterwards.
 *
 * @packageDocumentation
 */
import { randomUUID } from 'node:crypto';
import type { Result } from './claim.js';
import { type Ending, endingOf, later } from './core/delivery.js';
import { DEFAULT_DELAY, SHORTEST_DELAY } from './core/world.js';
import { Doubtful, GiveBack, InvalidField, Retry, Steer, Terminal, errorOf, typeName } from './errors.js';
import { Fingerprint, Key, checkedText } from './key.js';
import { type Names, checkNames } from './known-options.js';
import { Advice, type Outcome, outcome } from './outcome.js';
import { SpoolFailed } from './spool/failed.js';
import { type Effect, type SpoolClock, SpoolWriter } from './spool/writer.js';
import { type SpoolFile, openedSpool } from './spool/file.js';

export { SpoolFailed } from './spool/failed.js';

const RESULT_MAX = 16_384; // bytes; the ledger stores no larger result

/** What `process` of a spool takes besides the key and the effect. */
export interface SpoolOptions {
  /** The broker's raw body, of which the fingerprint is made. */
  body?: Uint8Array | undefined;
  /** The fingerprint itself, where the body is not at hand. */
  fingerprint?: Fingerprint | undefined;
}

const OPTIONS: Names<SpoolOptions> = { body: true, fingerprint: true };

/**
 * A file of effects that happen without a claim. One process writes a spool; all deliveries of the process may share it.
 *
 * A spool needs a POSIX system. Node.js has no file locks: the README of the package says what the lock file in its place cannot do.
 */
export class Spool implements AsyncDisposable {
  readonly #writer: SpoolWriter;

  private constructor(writer: SpoolWriter) {
    this.#writer = writer;
  }

  /**
   * Opens the file, on a local disk that outlives the process. It is made if it does not exist, readable for its owner
   * alone, since it has the results. Rejects with {@link SpoolFailed} where it cannot be opened, or another process has it.
   */
  static async open(path: string): Promise<Spool> {
    return Spool.over(await openedSpool(path));
  }

  /**
   * A spool over an opened file.
   *
   * @internal
   */
  static over(file: SpoolFile, clock?: SpoolClock): Spool {
    return new Spool(new SpoolWriter(file, clock));
  }

  /**
   * Runs the effect where `found`, the outcome of `Ledger.process`, is `away`, and resolves to any other outcome as it is.
   *
   * The beginning is on the disk before `effect` is called, and its end before this resolves. The outcome is then: `ACK`
   * where it has returned, with its result; `RETRY_LATER` where it threw `Retry`, `Terminal` or `GiveBack`, since it
   * certainly did not happen, or `Doubtful`; `DEAD_LETTER`, for a person to look, where it threw anything else. Where the
   * spool cannot be written the outcome is `RETRY_LATER` and its `error` a {@link SpoolFailed}: the effect has not begun,
   * or it has ended and is not noted (`effectUnknown`). A key of a replay run is never opened.
   *
   * The effect has no claim, no token and no protection from a redelivery. Rejects with `InvalidField` for what the program
   * does wrong.
   */
  async process(
    found: Outcome,
    consumer: string,
    key: Key,
    effect: () => Promise<Result> | Result,
    options: SpoolOptions = {},
  ): Promise<Outcome> {
    if (typeof effect !== 'function') throw new InvalidField('effect', 'must be a function without arguments');
    const line = effectOf(consumer, key, options);
    if (!found.away || key.replayRun || key.fault) return found;
    try {
      await this.#writer.append('begin', line);
    } catch (error) {
      return { ...found, ...failed(error) };
    }
    let ending: Ending;
    try {
      ending = endingOf(await effect());
    } catch (error) {
      ending = { error: errorOf(error) };
    }
    return 'error' in ending ? this.#threw(line, ending.error) : this.#returned(line, ending.result, ending.leftOut);
  }

  /** Closes the file, when what is being written is written. An effect that still runs has no end in it. */
  async close(): Promise<void> {
    await this.#writer.close();
  }

  /** The same as `close`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #threw(line: Effect, error: unknown): Promise<Outcome> {
    const reason = (error instanceof Steer ? error.reason : undefined) ?? typeName(error);
    if (error instanceof Retry || error instanceof Terminal || error instanceof GiveBack) {
      // Where this line cannot be written a person looks, and finds that it did not happen.
      await this.#writer.append('none', line).catch(() => undefined);
      const after = error instanceof Terminal ? undefined : error.afterMs;
      return later({ delayMs: after ? Math.max(after, SHORTEST_DELAY) : DEFAULT_DELAY, reason, error, away: true });
    }
    const unknown = { effectUnknown: true, reason, error, away: true };
    return error instanceof Doubtful ? later(unknown) : outcome(Advice.DEAD_LETTER, unknown);
  }

  async #returned(line: Effect, result: Uint8Array, leftOut: boolean): Promise<Outcome> {
    const fits = !leftOut && result.length <= RESULT_MAX;
    const known = leftOut ? undefined : result;
    const more = fits && result.length > 0 ? { result_base64: Buffer.from(result).toString('base64') } : {};
    try {
      await this.#writer.append('end', { ...line, ...more });
    } catch (error) {
      return later({ result: known, effectUnknown: true, away: true, ...failed(error) });
    }
    return outcome(Advice.ACK, { result: known, resultDropped: !fits, away: true });
  }
}

/** What an outcome says of a line that was not written. */
function failed(error: unknown): Pick<Outcome, 'reason' | 'detail' | 'error'> {
  if (!(error instanceof SpoolFailed)) throw error;
  return { reason: 'SPOOL_FAILED', detail: error.message, error };
}

/** What all lines of one effect have in common. */
function effectOf(consumer: string, key: Key, options: SpoolOptions): Effect {
  checkedText('consumer', consumer, 128);
  if (!(key instanceof Key)) {
    throw new InvalidField('key', `must be a Key, not ${typeof key}: Key.of(source, id) makes one`);
  }
  checkNames(options, OPTIONS, 'process of a spool');
  const { body } = options;
  if (body !== undefined && options.fingerprint !== undefined) {
    throw new InvalidField('fingerprint', 'give the raw body or its fingerprint, not both');
  }
  const fingerprint = body === undefined ? options.fingerprint : Fingerprint.of(body);
  const line = { row: randomUUID().replaceAll('-', ''), consumer, source: key.source, id: key.id };
  return fingerprint ? { ...line, fingerprint_hex: Buffer.from(fingerprint.digest).toString('hex') } : line;
}
