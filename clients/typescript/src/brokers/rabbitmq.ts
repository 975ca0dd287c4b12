/**
 * RabbitMQ: the messages of a quorum queue, each processed once. It needs `amqplib`.
 *
 * @packageDocumentation
 */
import type { Channel, ChannelModel, ConsumeMessage } from 'amqplib';
import type { Claim, Result } from '../claim.js';
import { InvalidField, LedgerError } from '../errors.js';
import { Key } from '../key.js';
import { type Names, checkNames } from '../known-options.js';
import type { Message as Kept } from '../message.js';
import { Advice } from '../outcome.js';
import { type Named, NoId, namedByCloudEvent, wasUtf8 } from './name.js';
import { type ConsumerOptions, Pool, STORE, checkConsumer, checkText, textOf } from './pool.js';
import { Copies, declare, notDueFor, quietly } from './rabbitmq-copies.js';

export { type Named, NoId } from './name.js';
export { type ConsumerOptions, STORE } from './pool.js';

const COPY_AGAIN = 1_000; // milliseconds before a copy that was not confirmed is sent again
const WITHOUT_ID = 'without-message-id';

/** Processes a message whose claim was granted: see `Handler` of the package. */
export type QueueHandler = (claim: Claim, message: ConsumeMessage, signal: AbortSignal) => Promise<Result> | Result;

/** The options of a `QueueConsumer`. */
export interface QueueOptions extends ConsumerOptions {
  /** A connection of `amqplib`, without its option `recovery`: `run` rejects where it is lost. */
  connection: ChannelModel;
  /**
   * The name of the queue. One that does not exist is declared as a quorum queue without a delivery limit; one that exists is
   * taken as it is. Set its `x-delivery-limit` to -1 where the server is RabbitMQ 4 or later, whose default of 20 drops messages.
   */
  queue: string;
  /**
   * Has the effect: returns and throws what a handler of `Ledger.process` does; or {@link STORE}. It must end within the server's
   * `consumer_timeout`, by default 30 minutes.
   */
  handler: QueueHandler | typeof STORE;
  /** The name of a message; it throws {@link NoId} where there is none, and any other error ends `run`. By default {@link named}. */
  named?: ((queue: string, message: ConsumeMessage) => Named) | undefined;
  /** The queue of the dead letters, which is declared as `queue` is. By default `QUEUE.dead`. */
  deadLetters?: string | undefined;
}

const OPTIONS: Names<QueueOptions> = {
  ledger: true,
  connection: true,
  queue: true,
  handler: true,
  named: true,
  deadLetters: true,
  concurrency: true,
  graceMs: true,
};

/**
 * The name of a message: that of its CloudEvent, else the queue and the property `message_id`.
 *
 * The id of a copy that has the header `without-message-id` is not read: its producer did not send it.
 */
export function named(queue: string, message: ConsumeMessage): Named {
  const {
    headers = {},
    contentType,
    messageId,
  } = message.properties as {
    headers?: Record<string, unknown>;
    contentType?: unknown;
    messageId?: unknown;
  };
  const found = new Map<string, string>();
  const entries = Object.entries(headers);
  if (contentType !== undefined) entries.push(['content-type', contentType]);
  for (const [name, value] of entries) {
    const text = attribute(value);
    if (text !== undefined && wasUtf8(text)) found.set(name, text);
  }
  const event = namedByCloudEvent(found, message.content);
  if (event) return event;
  if (typeof messageId !== 'string' || messageId === '' || !wasUtf8(messageId) || WITHOUT_ID in headers) {
    throw new NoId('the message has neither the attributes of a CloudEvent nor the property message_id');
  }
  return { key: Key.of(queue, messageId) };
}

/** The message for the inbox: of its headers those that are text in every language. */
function kept(queue: string, { content, properties }: ConsumeMessage): Kept {
  const { headers = {}, contentType, type } = properties as { headers?: object; contentType?: unknown; type?: unknown };
  const pairs = Object.entries(headers).flatMap(([name, value]) => {
    const text = attribute(value);
    return text === undefined ? [] : [[name, Buffer.from(text)] as const];
  });
  const texts = { contentType: attribute(contentType), eventType: attribute(type) };
  return { payload: content, headers: pairs, topic: queue, ...texts };
}

function checkConnection(connection: Partial<ChannelModel> | undefined): void {
  if (typeof connection?.createConfirmChannel !== 'function') {
    throw new InvalidField('connection', 'must be a connection of amqplib, made by its interface of promises');
  }
  if ('waitForConnect' in connection) {
    throw new InvalidField(
      'connection',
      'must not recover by itself: connect again, and call run again, where it rejects',
    );
  }
}

/** A header's value as text, where it has one text in every language. */
function attribute(value: unknown): string | undefined {
  if (typeof value === 'string') return value;
  // amqplib reads larger integers inexactly: two ids could become one.
  if (typeof value === 'number') return Number.isSafeInteger(value) ? String(value) : undefined;
  const { '!': type, value: seconds } = (value ?? {}) as { '!'?: unknown; value?: unknown };
  if (type !== 'timestamp' || typeof seconds !== 'number' || !(seconds < 8e12)) return undefined;
  return new Date(seconds * 1_000).toISOString();
}

/**
 * Processes the messages of a quorum queue.
 *
 * What each outcome becomes: `ACK` is an ack; `RETRY_LATER` is a copy in a delay queue (`QUEUE.later.5s` and so on), whose time
 * to live brings it back, then an ack; `DEAD_LETTER` is a copy, then an ack. The server confirms a copy, and that a queue has
 * it, before the original is acknowledged: after a crash in between there are two, and the ledger lets one have the effect. A
 * longer delay is spent in several turns: the header `retry-at` of a copy says when it is due.
 *
 * A message is never given back by nack: RabbitMQ counts those, and drops or dead-letters a message of a quorum queue that was
 * given back more often than its delivery limit.
 *
 * ```ts
 * await new QueueConsumer({ ledger, connection, queue: 'orders', handler: pay, concurrency: 8 }).run(stop.signal);
 * ```
 */
export class QueueConsumer {
  readonly #options: QueueOptions;

  /** Throws {@link InvalidField} for an option beyond its bound, or that is not one. */
  constructor(options: QueueOptions) {
    checkNames(options, OPTIONS, 'new QueueConsumer');
    checkConsumer(options);
    checkText('queue', options.queue);
    if (options.deadLetters !== undefined) checkText('deadLetters', options.deadLetters);
    checkConnection(options.connection);
    this.#options = { ...options };
  }

  /**
   * Takes messages until `stop` is aborted, and resolves when those that it has begun are settled. What it has fetched and not
   * begun returns to the queue.
   *
   * Rejects where the connection is lost or the queue deleted, where the ledger is closed, and where handlers still run after
   * the grace. After a loss connect again, and call it again.
   */
  async run(stop: AbortSignal): Promise<void> {
    const pool = new Pool(this.#options, `queue ${this.#options.queue}`, stop);
    // Without a listener a lost connection would end the process.
    const lost = (error: unknown): void => pool.fail(error);
    const { connection } = this.#options;
    connection.on('error', lost);
    try {
      await new Run(this.#options, pool).run();
    } finally {
      connection.off('error', lost);
      pool.close();
    }
  }
}

/** One run of a consumer. */
class Run {
  readonly #queue: string;
  readonly #deadLetters: string;

  constructor(
    private readonly options: QueueOptions,
    private readonly pool: Pool,
  ) {
    this.#queue = options.queue;
    this.#deadLetters = options.deadLetters ?? `${options.queue}.dead`;
  }

  async run(): Promise<void> {
    const { connection } = this.options;
    for (const queue of [this.#queue, this.#deadLetters]) await declare(connection, queue);
    const channels: Channel[] = [];
    const opened = async <C extends Channel>(opening: Promise<C>): Promise<C> => {
      const channel = await opening;
      channel.on('error', (error) => this.pool.fail(error));
      channel.on('close', () => this.pool.fail(new LedgerError('the channel to RabbitMQ was closed')));
      channels.unshift(channel);
      return channel;
    };
    try {
      const copies = new Copies(connection, await opened(connection.createConfirmChannel()));
      await this.#consume(await opened(connection.createChannel()), copies);
    } finally {
      // What was fetched and not acknowledged returns to the queue.
      for (const channel of channels) {
        channel.removeAllListeners('close');
        await quietly(() => channel.close());
      }
    }
  }

  async #consume(channel: Channel, copies: Copies): Promise<void> {
    await channel.prefetch(this.pool.concurrency);
    const arrived = (message: ConsumeMessage | null): void => {
      if (message) void this.#begin(channel, copies, message);
      else this.pool.fail(new LedgerError('the server has ended the consumption: the queue is deleted'));
    };
    const { consumerTag } = await channel.consume(this.#queue, arrived);
    await this.pool.end();
    await quietly(() => channel.cancel(consumerTag)); // Else the channel is closed, which says the same.
    await this.pool.wait();
  }

  async #begin(channel: Channel, copies: Copies, message: ConsumeMessage): Promise<void> {
    if ((await this.pool.acquire(1)) === 1) this.pool.go(() => this.#settle(channel, copies, message));
  }

  /** Processes a message, and acknowledges it. One that is not acknowledged returns to the queue when the run ends. */
  async #settle(channel: Channel, copies: Copies, message: ConsumeMessage): Promise<void> {
    const { handler, named: name = named } = this.options;
    const rest = notDueFor(message);
    if (rest > 0) {
      if (await this.#copied(() => copies.postpone(this.#queue, message, rest))) this.#acknowledge(channel, message);
      return;
    }
    const { signal: stopping } = this.pool;
    const naming = (): Named => name(this.#queue, message);
    const { advice, delayMs, reason, begun } =
      handler === STORE
        ? await this.pool.store(stopping, naming, kept(this.#queue, message))
        : await this.pool.process(stopping, naming, message.content, (claim, signal) =>
            handler(claim, message, signal),
          );
    if (!begun) return;
    if (advice === Advice.RETRY_LATER) {
      if (!(await this.#copied(() => copies.postpone(this.#queue, message, delayMs)))) return;
    } else if (advice === Advice.DEAD_LETTER) {
      if (!(await this.#copied(() => copies.deadLetter(this.#deadLetters, message, reason)))) return;
    }
    this.#acknowledge(channel, message);
  }

  /** Makes a copy, and tries again until it is stored: RabbitMQ does not deliver the message again before the run ends. */
  async #copied(copy: () => Promise<void>): Promise<boolean> {
    for (;;) {
      try {
        await copy();
        return true;
      } catch (error) {
        this.pool.say('a copy of a message is not stored', textOf(error));
        if (!(await this.pool.sleep(COPY_AGAIN))) return false;
      }
    }
  }

  #acknowledge(channel: Channel, message: ConsumeMessage): void {
    try {
      channel.ack(message);
    } catch (error) {
      // RabbitMQ delivers it again, and the ledger knows what became of it.
      this.pool.say('a message is not acknowledged', textOf(error));
    }
  }
}
