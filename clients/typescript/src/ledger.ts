import { Claim, type Handler, type Result } from './claim.js';
import { channelOf } from './connection.js';
import { type Ending, admitted, begin, endingOf, finish } from './core/delivery.js';
import { Hold } from './core/hold.js';
import { store } from './core/inbox.js';
import type { Item } from './core/queue.js';
import type { World } from './core/world.js';
import { LIMITS } from './core/world.js';
import { ClaimLost, Closed, InvalidField, Park } from './errors.js';
import type { Key } from './key.js';
import { type Message, type StoredMessage, faultOf } from './message.js';
import type { DeliveryOptions, LedgerOptions, StoreOptions, WorkOptions } from './options.js';
import { checkDelivery, checkOptions, checkWork, requestOf, storeOf } from './options.js';
import type { Outcome } from './outcome.js';
import { Report } from './report.js';
import { Telemetry } from './telemetry.js';
import { aborted, sleep } from './timing.js';
import { Transport } from './transport.js';
import { type Client, Worker } from './worker.js';

/** Processes a message of the inbox. `signal` is aborted where the claim is lost. */
export type MessageHandler = (claim: Claim, message: StoredMessage, signal: AbortSignal) => Promise<Result> | Result;

/** A delivery under way. */
interface Delivery {
  readonly hold: Hold | undefined;
  readonly claim: Claim;
  /** The renewal; it never rejects. */
  readonly renewal: Promise<void>;
}

let report: (ledger: Ledger) => Report;

/**
 * A client of the ledger for one consumer. It may be shared by all deliveries of a process.
 *
 * Nothing is sent before the first delivery. Throws {@link InvalidField} for an option beyond its bound.
 */
export class Ledger implements AsyncDisposable {
  static {
    report = (ledger) => ledger.#report;
  }

  readonly #options: LedgerOptions;
  readonly #transport: Transport;
  readonly #world: World;
  readonly #report: Report;
  readonly #telemetry: Telemetry;
  readonly #idle = new Set<() => void>();
  readonly #workers = new Set<Worker>();
  #running = 0;
  #closing = false;

  constructor(options: LedgerOptions) {
    checkOptions(options);
    this.#options = { ...options };
    this.#transport = new Transport(channelOf(options));
    const now = () => performance.now();
    const send: World['send'] = (attempt) => this.#transport.send(attempt);
    const connected: World['connected'] = (limit) => this.#transport.connected(limit);
    this.#world = { now, random: Math.random, sleep, connected, send, ...LIMITS };
    this.#report = new Report(options.consumer, options.log ?? ((line) => console.warn(line)), now);
    this.#telemetry = new Telemetry(options.consumer);
  }

  /** The group that processes. */
  get consumer(): string {
    return this.#options.consumer;
  }

  /**
   * Processes one delivery: claims the message, runs the handler where it is granted, settles, and advises.
   *
   * What the handler returns is the result. It throws `Retry`, `Terminal`, `Park`, `Doubtful` or `GiveBack` to say how
   * its attempt ended; any other error means what the option `unexpected` says, and is `error` of the outcome.
   *
   * Never rejects with what the ledger answers: `advice` of the outcome says what to do. Rejects with `InvalidField` and
   * `Closed` before anything is sent, and with the reason of `options.signal` where that is aborted.
   */
  async process(key: Key, handler: Handler, options: DeliveryOptions = {}): Promise<Outcome> {
    if (typeof handler !== 'function') throw new InvalidField('handler', 'must be a function of the claim');
    checkDelivery(options);
    return this.#taken(options.signal, async (stopping) => {
      return this.#processed(await this.#begun(key, options, stopping), handler);
    });
  }

  /**
   * Stores a message in the ledger's inbox; `work` processes it later. Acknowledge the broker's on the advice `ACK` alone.
   *
   * Resolves when the message is durable. `reason` of the outcome is `undefined` where it is stored, `already_stored` or
   * `completed` (both `replayed`) where the ledger knows it; else why it is not: `fingerprint_mismatch`, `outside_window`,
   * `failed`, or the ledger's reason, such as `INBOX_OFF`, or `BACKLOG_FULL` with a `delayMs`. A message beyond a bound is not
   * sent: `DEAD_LETTER`, with an `InvalidField` as its `error`. Rejects with `InvalidField` and `Closed` before anything is sent.
   */
  async store(key: Key, message: Message, options: StoreOptions = {}): Promise<Outcome> {
    const request = storeOf(this.#options, key, message, options);
    if (this.#closing) throw new Closed();
    this.#running += 1;
    try {
      const outcome = await store(this.#world, request, key.fault ?? faultOf(message));
      this.#report.outcome(outcome);
      return outcome;
    } finally {
      this.#left();
    }
  }

  /**
   * Processes the messages of the inbox until `signal` of the options is aborted, or `close` is called.
   *
   * The handler returns and throws what a handler of `process` does. At most `concurrency` of them run at the same time, and
   * never two of one message. A message that waits here for a handler is renewed. At the end those that have not begun are
   * released, and those that run end and settle, for at most `graceMs`: resolves to false where one still runs then.
   *
   * A message whose lease ran out twice in a row runs alone within one worker: it may have killed earlier processes. Rejects with
   * `InvalidField` and `Closed` before anything is sent.
   */
  async work(handler: MessageHandler, options: WorkOptions = {}): Promise<boolean> {
    if (typeof handler !== 'function')
      throw new InvalidField('handler', 'must be a function of the claim and the message');
    checkWork(options);
    if (this.#closing) throw new Closed();
    const { signal, concurrency = 1, graceMs = 20_000 } = options;
    const client: Client = {
      world: this.#world,
      options: this.#options,
      report: (outcome) => this.#report.outcome(outcome),
      kept: (hold, lost) => this.#kept(hold, lost),
      handed: (item, handle, stopping) => this.#handed(item, handle, stopping),
    };
    const of =
      (message: StoredMessage): Handler =>
      (claim, lost) =>
        handler(claim, message, lost);
    const worker = new Worker(client, of, concurrency, graceMs);
    this.#running += 1;
    this.#workers.add(worker);
    signal?.addEventListener('abort', worker.stop, { once: true });
    if (signal?.aborted) worker.stop();
    try {
      return await worker.run();
    } finally {
      signal?.removeEventListener('abort', worker.stop);
      this.#workers.delete(worker);
      this.#left();
    }
  }

  /**
   * Claims a message for a block: `await using claim = await ledger.claim(key)`. Look at `granted` first; call
   * `claim.complete(result)` or `claim.fail(error)` before the block ends, since the block's end does not know whether it
   * ended well. Without `await using` call `claim.end()`. Rejects as `process` does.
   */
  async claim(key: Key, options: DeliveryOptions = {}): Promise<Claim> {
    checkDelivery(options);
    return new Promise((granted, refused) => {
      const block = async (stopping: () => boolean): Promise<Outcome> => {
        const ended = new AbortController();
        const { hold, claim } = await this.#begun(key, options, stopping, () => ended.abort());
        granted(claim);
        if (hold) await aborted(ended.signal);
        return claim.outcome;
      };
      this.#taken(options.signal, block).catch(refused);
    });
  }

  /**
   * Takes no new delivery, gives back claims that arrive from now on, and waits until running handlers have ended and
   * are settled. Resolves to false where some still run after `graceMs` milliseconds (20 seconds by default): the
   * connection stays open for them.
   */
  async close(graceMs = 20_000): Promise<boolean> {
    if (!(graceMs >= 0)) throw new InvalidField('graceMs', `${graceMs} ms is not a time`);
    this.#closing = true;
    for (const worker of this.#workers) worker.stop();
    if (this.#running > 0) {
      const over = new AbortController();
      const idle = () => over.abort();
      this.#idle.add(idle);
      await sleep(graceMs, over.signal);
      this.#idle.delete(idle);
    }
    if (this.#running > 0) return false;
    this.#transport.close();
    return true;
  }

  /** The same as `close` with its default. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Counts and measures a delivery until it has ended. The caller may leave earlier; the delivery goes on. */
  async #taken(signal: AbortSignal | undefined, run: (stopping: () => boolean) => Promise<Outcome>): Promise<Outcome> {
    if (this.#closing) throw new Closed();
    signal?.throwIfAborted();
    this.#running += 1;
    const stopping = () => this.#closing || (signal?.aborted ?? false);
    const work = this.#measured(() => run(stopping));
    if (!signal) return work;
    return new Promise((resolve, reject) => {
      const leave = () => reject(signal.reason as Error);
      signal.addEventListener('abort', leave, { once: true });
      work.then(resolve, reject).finally(() => signal.removeEventListener('abort', leave));
    });
  }

  async #measured(run: () => Promise<Outcome>): Promise<Outcome> {
    try {
      const outcome = await this.#telemetry.delivery(run);
      this.#report.outcome(outcome);
      return outcome;
    } finally {
      this.#left();
    }
  }

  #left(): void {
    this.#running -= 1;
    if (this.#running > 0) return;
    for (const idle of this.#idle) idle();
    if (this.#closing) this.#transport.close();
  }

  async #begun(
    key: Key,
    options: DeliveryOptions,
    stopping: () => boolean,
    done: () => void = () => undefined,
  ): Promise<Delivery> {
    const { repeatAnnounced = false } = this.#options;
    const request = requestOf(this.#options, key, options);
    const begun = await begin(this.#world, { request, fault: key.fault, repeatAnnounced, stopping });
    const lost = new AbortController();
    const renewal = begun instanceof Hold ? this.#kept(begun, lost) : Promise.resolve();
    return this.#delivery(begun, lost, renewal, done);
  }

  #delivery(
    begun: Hold | Outcome,
    lost: AbortController,
    renewal: Promise<void>,
    done: () => void = () => undefined,
  ): Delivery {
    const hold = begun instanceof Hold ? begun : undefined;
    const settle = (held: Hold, ending: Ending) => this.#finished(held, renewal, ending);
    return { hold, renewal, claim: new Claim(begun, lost.signal, settle, done) };
  }

  /** Runs the handler where the claim is granted, and settles. */
  async #processed({ hold, claim, renewal }: Delivery, handler: Handler): Promise<Outcome> {
    if (!hold) return claim.outcome;
    let ending: Ending;
    try {
      ending = this.#ending(await handler(claim, claim.signal));
    } catch (error) {
      ending = { error };
    }
    return this.#finished(hold, renewal, ending);
  }

  /** Processes a message that a worker was handed out, and that is renewed already. */
  async #handed({ hold, lost, renewal }: Item, handler: Handler, stopping: () => boolean): Promise<Outcome> {
    this.#running += 1;
    return this.#measured(async () => {
      const begun = await admitted(hold, stopping, this.#options.repeatAnnounced ?? false);
      if (begun === hold) return this.#processed(this.#delivery(begun, lost, renewal), handler);
      hold.end();
      await renewal;
      return begun as Outcome;
    });
  }

  /** Renews the lease until the claim is settled or lost; a lost claim aborts the handler's signal. */
  async #kept(hold: Hold, lost: AbortController): Promise<void> {
    const reason = await hold.renewing();
    if (reason === undefined) return;
    hold.lost = reason;
    lost.abort(new ClaimLost(reason));
  }

  async #finished(hold: Hold, renewal: Promise<void>, ending: Ending): Promise<Outcome> {
    try {
      return await finish(hold, ending, this.#options.unexpected ?? Park);
    } finally {
      hold.end();
      await renewal;
    }
  }

  /** What a handler has returned. What cannot be a result is logged, and completes all the same. */
  #ending(result: unknown): Ending {
    const ending = endingOf(result);
    if ('leftOut' in ending && ending.leftOut) {
      const isOne = 'a result is bytes, text or nothing; the message is completed without it';
      this.#report.line('result', `a handler returned ${typeof result}: ${isOne}`);
    }
    return ending;
  }
}

/**
 * The log of a ledger, which the consumers of brokers write to as well.
 *
 * @internal
 */
export function reportOf(ledger: Ledger): Report {
  return report(ledger);
}
