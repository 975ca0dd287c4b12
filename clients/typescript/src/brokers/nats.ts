/**
 * NATS JetStream: the messages of a pull consumer, each processed once. It needs `@nats-io/jetstream` and
 * `@nats-io/transport-node`.
 *
 * @packageDocumentation
 */
import type { Consumer, ConsumerConfig, JetStreamClient, JsMsg } from '@nats-io/jetstream';
import { headers } from '@nats-io/transport-node';
import type { Claim, Result } from '../claim.js';
import { InvalidField } from '../errors.js';
import { Key } from '../key.js';
import { type Names, checkNames } from '../known-options.js';
import type { Message as Kept } from '../message.js';
import { Advice } from '../outcome.js';
import { type Named, NoId, namedByCloudEvent, wasUtf8 } from './name.js';
import { type ConsumerOptions, Pool, STORE, type Verdict, checkConsumer, checkText, textOf } from './pool.js';

export { type Named, NoId } from './name.js';
export { type ConsumerOptions, STORE } from './pool.js';

const FETCH = 1_000; // milliseconds that a fetch waits for messages: the end of the signal is noticed after it
const FETCH_LATE = 1_000; // milliseconds after that until a fetch is given up that no server answers
const FETCH_AGAIN = 1_000;
const COPY = 10_000; // milliseconds within which JetStream confirms a copy
const ACK_WAIT = 30e9; // nanoseconds: JetStream's default, where a consumer has no ack_wait
const EXTEND_MIN = 10; // milliseconds

const ID = 'Nats-Msg-Id';
const LETTER_ID = 'Dead-Letter-Msg-Id';
const LETTER_REASON = 'Dead-Letter-Reason';
// Errors that stay: the connection is closed, or the consumer does not exist.
const GONE = ['ClosedConnectionError', 'DrainingConnectionError', 'ConsumerNotFoundError', 'StreamNotFoundError'];

/** Processes a message whose claim was granted: see `Handler` of the package. */
export type JetStreamHandler = (claim: Claim, message: JsMsg, signal: AbortSignal) => Promise<Result> | Result;

/**
 * Stores a copy of a message before it is acknowledged: see {@link toSubject}. `reason` is the outcome's, or `NO_ID`; it may
 * be empty. Where it rejects the message is not acknowledged, and is delivered again.
 */
export type DeadLetter = (message: JsMsg, reason: string) => Promise<void>;

/** The options of a `JetStreamConsumer`. */
export interface JetStreamOptions extends ConsumerOptions {
  /** A pull consumer with explicit acknowledgement, best without a `max_deliver`: `await stream.consumers.get('ORDERS', 'payments')`. */
  consumer: Consumer;
  /** Has the effect: returns and throws what a handler of `Ledger.process` does; or {@link STORE}. */
  handler: JetStreamHandler | typeof STORE;
  /** The name of a message; it throws {@link NoId} where there is none, and any other error ends `run`. By default {@link named}. */
  named?: ((message: JsMsg) => Named) | undefined;
  /** Stores a copy of a dead letter. By default the message is terminated, and stays in its stream as long as that keeps messages. */
  deadLetter?: DeadLetter | undefined;
}

const OPTIONS: Names<JetStreamOptions> = {
  ledger: true,
  consumer: true,
  handler: true,
  named: true,
  deadLetter: true,
  concurrency: true,
  graceMs: true,
};

/** The name of a message: that of its CloudEvent, else its stream and its header `Nats-Msg-Id`. */
export function named(message: JsMsg): Named {
  const found = new Map<string, string>();
  for (const name of message.headers?.keys() ?? []) {
    const value = message.headers?.get(name) ?? '';
    if (wasUtf8(value)) found.set(name, value);
  }
  const event = namedByCloudEvent(found, message.data);
  if (event) return event;
  const id = found.get(ID);
  if (!id) throw new NoId(`the message has neither the attributes of a CloudEvent nor the header ${ID}`);
  return { key: Key.of(message.info.stream, id) };
}

/** The message for the inbox, with its subject and its place in the stream. */
function kept(message: JsMsg): Kept {
  const headers = (message.headers?.keys() ?? []).flatMap((name) =>
    (message.headers?.values(name) ?? []).map((value) => [name, Buffer.from(value)] as const),
  );
  return { payload: message.data, headers, topic: message.subject, offset: BigInt(message.seq) };
}

/**
 * Stores dead letters under a subject of JetStream, each once for a message of the broker. JetStream confirms the copy within
 * 10 seconds, else the message is delivered again.
 *
 * A copy has no header that begins with `Nats-`: the stream of the copy would act on it (`Nats-Rollup` deletes what it has
 * stored). The producer's `Nats-Msg-Id` becomes `Dead-Letter-Msg-Id`; `Dead-Letter-Reason` says why.
 */
export function toSubject(stream: JetStreamClient, subject: string): DeadLetter {
  checkText('subject', subject);
  return async (message, reason) => {
    const letter = headers();
    for (const name of message.headers?.keys() ?? []) {
      if (name.toLowerCase().startsWith('nats-')) continue;
      for (const value of message.headers?.values(name) ?? []) letter.append(name, value);
    }
    const id = message.headers?.get(ID);
    if (id) letter.set(LETTER_ID, id);
    letter.set(LETTER_REASON, reason.replace(/[^ -~]/g, '?'));
    // It names the broker's message, not the event: a replay that is dead-lettered again is not dropped. The instant differs
    // where a stream was made again, and counts from 1.
    const msgID = `${subject}/${message.info.stream}/${message.seq}/${message.timestampNanos}`;
    await stream.publish(subject, message.data, { headers: letter, msgID, timeout: COPY });
  };
}

/**
 * Processes the messages of a pull consumer of JetStream.
 *
 * What each outcome becomes: `ACK` is an ack; `RETRY_LATER` is a nak with the outcome's delay; `DEAD_LETTER` is the copy,
 * then an ack, or a term. While a message is processed, an in-progress extends its acknowledgement wait at a third of it.
 *
 * ```ts
 * const consumer = await stream.consumers.get('ORDERS', 'payments');
 * await new JetStreamConsumer({ ledger, consumer, handler: pay, deadLetter: toSubject(stream, 'dead') }).run(stop.signal);
 * await connection.drain(); // sends the last acknowledgements
 * ```
 */
export class JetStreamConsumer {
  readonly #options: JetStreamOptions;

  /** Throws {@link InvalidField} for an option beyond its bound, or that is not one. */
  constructor(options: JetStreamOptions) {
    checkNames(options, OPTIONS, 'new JetStreamConsumer');
    checkConsumer(options);
    if (typeof (options.consumer as Partial<Consumer> | undefined)?.fetch !== 'function') {
      throw new InvalidField('consumer', 'must be a pull consumer of JetStream');
    }
    this.#options = { ...options };
  }

  /**
   * Takes messages until `stop` is aborted, and resolves when those that it has taken are settled. What it has fetched and
   * not begun is given back.
   *
   * Rejects where the consumer's settings are at fault, where no message can be fetched any more (the connection is closed,
   * the consumer is deleted), where the ledger is closed, and where handlers still run after the grace. While no server
   * answers it waits for one.
   */
  async run(stop: AbortSignal): Promise<void> {
    const { stream_name: stream, name, config } = await this.#options.consumer.info();
    if (config.ack_policy !== 'explicit') {
      throw new InvalidField(
        'consumer',
        `its ack_policy is ${config.ack_policy}; explicit is needed: each message is settled alone`,
      );
    }
    const pool = new Pool(this.#options, `stream ${stream}, consumer ${name}`, stop);
    try {
      if ((config.max_deliver ?? 0) > 0) {
        const instead =
          'JetStream drops a message after that many deliveries, whatever became of it; set -1, and let the policy bound the attempts';
        pool.say('max_deliver bounds the deliveries', `it is ${config.max_deliver}: ${instead}`);
      }
      await new Run(this.#options, pool, extendEvery(config)).run();
    } finally {
      pool.close();
    }
  }
}

/** A third of the consumer's acknowledgement wait, in milliseconds. */
export function extendEvery(config: Pick<ConsumerConfig, 'ack_wait' | 'backoff'>): number {
  // A back-off stands for the ack_wait of each delivery.
  const waits = [config.ack_wait ?? 0, ...(config.backoff ?? [])].filter((wait) => wait > 0);
  return Math.max(EXTEND_MIN, Math.min(...(waits.length > 0 ? waits : [ACK_WAIT])) / 3e6);
}

/** One run of a consumer. */
class Run {
  constructor(
    private readonly options: JetStreamOptions,
    private readonly pool: Pool,
    private readonly extendMs: number,
  ) {}

  async run(): Promise<void> {
    for (let slots = await this.pool.acquire(); slots > 0; slots = await this.pool.acquire()) {
      try {
        await this.#take(slots);
      } catch (error) {
        await this.#failed(error);
      }
    }
    await this.pool.wait();
  }

  /** Fetches messages for the slots, and begins each. */
  async #take(slots: number): Promise<void> {
    let free = slots;
    let late: NodeJS.Timeout | undefined;
    try {
      const batch = await this.options.consumer.fetch({ max_messages: slots, expires: FETCH });
      // After a lost connection a fetch waits for the next one. What still arrives when it is given up is delivered again.
      const giveUp = () => (late = setTimeout(() => void batch.close(), FETCH + FETCH_LATE));
      this.pool.signal.addEventListener('abort', giveUp, { once: true });
      try {
        for await (const message of batch) {
          // A fetch that begins again after a lost connection may have more messages than slots.
          if (free === 0) free += await this.pool.acquire(1);
          if (this.pool.ended || free === 0) {
            this.#answer(() => message.nak()); // Nothing was done with it: another process may have it now.
          } else {
            free -= 1;
            this.pool.go(() => this.#settle(message));
          }
        }
      } finally {
        this.pool.signal.removeEventListener('abort', giveUp);
      }
    } finally {
      clearTimeout(late);
      this.pool.release(free);
    }
  }

  /** Waits where messages may be fetched again, and ends the run where they may not. */
  async #failed(error: unknown): Promise<void> {
    if (this.pool.ended) return;
    this.pool.say('no message can be fetched for now', textOf(error));
    // A pull without a server, and one without its consumer, are answered alike.
    const asked: unknown = await this.options.consumer.info().catch((refused: unknown) => refused);
    const lasting = [error, asked].find((each) => each instanceof Error && GONE.includes(each.name));
    if (lasting) this.pool.fail(lasting);
    else await this.pool.sleep(FETCH_AGAIN);
  }

  /** Processes a message, and acknowledges it. */
  async #settle(message: JsMsg): Promise<void> {
    const { handler, named: name = named, deadLetter } = this.options;
    const extending = setInterval(() => {
      this.#answer(() => message.working());
    }, this.extendMs);
    try {
      const { signal: stopping } = this.pool;
      const naming = (): Named => name(message);
      const verdict =
        handler === STORE
          ? await this.pool.store(stopping, naming, kept(message))
          : await this.pool.process(stopping, naming, message.data, (claim, signal) => handler(claim, message, signal));
      if (verdict.advice === Advice.DEAD_LETTER && deadLetter) await deadLetter(message, verdict.reason);
      this.#answer(() => this.#acknowledge(message, verdict));
    } catch (error) {
      this.pool.say('a dead letter is not stored; it is delivered again', textOf(error));
    } finally {
      clearInterval(extending);
    }
  }

  #acknowledge(message: JsMsg, { advice, delayMs, begun }: Verdict): void {
    if (!begun) message.nak();
    else if (advice === Advice.RETRY_LATER) message.nak(Math.ceil(delayMs));
    else if (advice === Advice.DEAD_LETTER && !this.options.deadLetter) message.term();
    else message.ack();
  }

  /** Logs where a message was not acknowledged: JetStream delivers it again, and the ledger knows what became of it. */
  #answer(answer: () => void): void {
    try {
      answer();
    } catch (error) {
      this.pool.say('a message is not acknowledged', textOf(error));
    }
  }
}
