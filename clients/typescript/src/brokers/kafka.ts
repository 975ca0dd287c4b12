/**
 * Kafka, classic consumer groups: the messages of a topic, each processed once. It needs `@platformatic/kafka`.
 *
 * @packageDocumentation
 */
import type { BaseOptions, Consumer, GroupOptions, Producer } from '@platformatic/kafka' with {
  'resolution-mode': 'import',
};
import type { Claim, Result } from '../claim.js';
import { InvalidField, LedgerError } from '../errors.js';
import { Key } from '../key.js';
import { type Names, checkNames } from '../known-options.js';
import type { Message as Kept } from '../message.js';
import { Advice } from '../outcome.js';
import { sleep } from '../timing.js';
import { closeClient } from './kafka-close.js';
import { Fetcher } from './kafka-fetch.js';
import { Group } from './kafka-group.js';
import { Changed, type KafkaMessage, Partitions, type Taken } from './kafka-partitions.js';
import { Reader } from './kafka-reader.js';
import { type Named, NoId, namedByCloudEvent, wasUtf8 } from './name.js';
import { type ConsumerOptions, Pool, STORE, checkConsumer, checkText, textOf } from './pool.js';

export { type KafkaMessage } from './kafka-partitions.js';
export { type Named, NoId } from './name.js';
export { type ConsumerOptions, STORE } from './pool.js';

const COPY = 10_000; // milliseconds within which the broker confirms a copy
const COPY_AGAIN = 1_000; // milliseconds until a message is processed again whose copy was not confirmed
// Milliseconds that a message waits at most whose attempt runs at another member. The ledger names the end of the lease, but after a
// rebalance the former owner of the partition mostly ends or releases the attempt within a second.
const ASK = 1_000;
const IN_PROGRESS = 'in_progress'; // the ledger's verdict
const IDLE = 1_000;
const CLOSE = 1_000; // milliseconds until a client is left that does not close
const SESSION = 45_000; // milliseconds: Kafka's default
const REBALANCE = 102_000; // milliseconds: the client's default
const ALL_REPLICAS = -1;
const REASON = 'dead-letter-reason';
const DUE = 'retry-at'; // milliseconds since 1970
const NOTHING = new Uint8Array();

/** Processes a message whose claim was granted: see `Handler` of the package. */
export type TopicHandler = (claim: Claim, message: KafkaMessage, signal: AbortSignal) => Promise<Result> | Result;

/** How a client of Kafka reaches the brokers: `bootstrapBrokers`, `tls`, `sasl` and so on. */
export type KafkaConfig = Omit<BaseOptions, 'clientId'> & {
  /** The name of the program for the brokers' logs and quotas; by default `idempotency-ledger`. */
  clientId?: string | undefined;
};

/**
 * The membership in the group, in milliseconds: after `sessionTimeout` (45 seconds by default) without a heartbeat, one of which is
 * sent each `heartbeatInterval` (3 seconds), the group gives the partitions to other members; a rebalance waits for a member for
 * `rebalanceTimeout` (102 seconds).
 */
export type KafkaMembership = Pick<GroupOptions, 'sessionTimeout' | 'rebalanceTimeout' | 'heartbeatInterval'>;

/** The options of a `TopicConsumer`. */
export interface TopicOptions extends ConsumerOptions {
  /** How to reach the brokers, for the member, for a second connection that fetches, and for the producer of copies. */
  kafka: KafkaConfig;
  /** The topic. */
  topic: string;
  /** Has the effect: returns and throws what a handler of `Ledger.process` does; or {@link STORE}. It may take as long as it needs. */
  handler: TopicHandler | typeof STORE;
  /** The consumer group; one without offsets begins with the first messages. By default the consumer of the ledger. */
  group?: string | undefined;
  /** Timeouts of the membership. */
  membership?: KafkaMembership | undefined;
  /**
   * The name of a message, by `topic`, also where the message is in `retries`; it throws {@link NoId} where there is none, and
   * any other error ends `run`. By default {@link named}.
   */
  named?: ((topic: string, message: KafkaMessage) => Named) | undefined;
  /** The topic of messages that come later; it must exist. By default their partitions wait. */
  retries?: string | undefined;
  /** The topic of the dead letters; it must exist. By default `TOPIC.dead`. */
  deadLetters?: string | undefined;
}

const OPTIONS: Names<TopicOptions> = {
  ledger: true,
  kafka: true,
  topic: true,
  handler: true,
  group: true,
  membership: true,
  named: true,
  retries: true,
  deadLetters: true,
  concurrency: true,
  graceMs: true,
};

/**
 * The name of a message: that of its CloudEvent, else the topic and its header `id`.
 *
 * Neither its key nor its offset names it: a key chooses a partition, and a producer that repeats itself gets another offset. A
 * header that is not UTF-8 is not read: two ids must not become one.
 */
export function named(topic: string, message: KafkaMessage): Named {
  const found = new Map<string, string>();
  for (const [name, value] of message.headers) {
    const text = value?.toString() ?? '';
    if (wasUtf8(text)) found.set(name, text);
    else found.delete(name);
  }
  const event = namedByCloudEvent(found, message.value ?? NOTHING);
  if (event) return event;
  const id = found.get('id');
  if (!id) throw new NoId('the message has neither the attributes of a CloudEvent nor a header id');
  return { key: Key.of(topic, id) };
}

/** The message for the inbox, with its place in the topic. */
function kept({ topic, partition, offset, key, value, headers }: KafkaMessage): Kept {
  const pairs = headers.map(([name, each]) => [name, each ?? NOTHING] as const);
  return { payload: value ?? NOTHING, headers: pairs, topic, partition, offset, messageKey: key ?? NOTHING };
}

/**
 * Processes the messages of a topic, as a member of a classic consumer group.
 *
 * What each outcome becomes: `ACK` is an offset that is committed once all offsets before it are done. `RETRY_LATER` stops the
 * partition until the message is done: it is processed again, from memory, after the outcome's delay; or, with `retries`, it is
 * a copy in that topic with the header `retry-at`. `DEAD_LETTER` is a copy. All in-sync replicas confirm a copy before the
 * original counts as done: after a crash in between there are two.
 *
 * Messages of a partition are processed at the same time; with a `concurrency` of 1 in their order. Of a partition that is
 * revoked, what has not begun is given back, and what runs ends without a commit: the next owner has it again.
 *
 * ```ts
 * const kafka = { bootstrapBrokers: ['127.0.0.1:9092'] };
 * await new TopicConsumer({ ledger, kafka, topic: 'orders', handler: pay, concurrency: 8 }).run(stop.signal);
 * ```
 */
export class TopicConsumer {
  readonly #options: TopicOptions;

  /** Throws {@link InvalidField} for an option beyond its bound, or that is not one. */
  constructor(options: TopicOptions) {
    checkNames(options, OPTIONS, 'new TopicConsumer');
    checkConsumer(options);
    checkText('topic', options.topic);
    for (const name of ['group', 'retries', 'deadLetters'] as const) {
      if (options[name] !== undefined) checkText(name, options[name]);
    }
    if (!Array.isArray((options.kafka as Partial<KafkaConfig> | undefined)?.bootstrapBrokers)) {
      throw new InvalidField('kafka', 'must have bootstrapBrokers');
    }
    this.#options = { ...options };
  }

  /**
   * Takes messages until `stop` is aborted, and resolves when those that it has begun are settled, and what is done is committed.
   *
   * Rejects where Kafka refuses this member or its topics (authorization, another protocol), where the ledger is closed, and
   * where handlers still run after the grace. While no broker answers it waits for one.
   */
  async run(stop: AbortSignal): Promise<void> {
    const { kafka: config, topic, retries, membership, group, ledger } = this.#options;
    const client = await import('@platformatic/kafka');
    const pool = new Pool(this.#options, `topic ${topic}`, stop);
    const shared = { ...config, clientId: config.clientId ?? 'idempotency-ledger' };
    // No retries by the client: it would rejoin the group and commit offsets of its former partitions. The run retries itself.
    const own = {
      ...shared,
      sessionTimeout: SESSION,
      ...membership,
      groupId: group ?? ledger.consumer,
      autocommit: false,
      retries: 0,
    };
    const member = new client.Consumer({
      ...own,
      // Others may be members of the same group that offer only one of these.
      protocols: ['range', 'roundrobin'].map((name) => ({ name, version: 1 })),
      // A join is answered when the other members have joined.
      requestTimeout: (membership?.rebalanceTimeout ?? REBALANCE) + COPY,
      // A timer of the client, for an event that nobody awaits here: it would keep a process that stops amid a rebalance from ending,
      // by default for the rebalance timeout.
      heartbeatStallTimeout: CLOSE,
    });
    const reader = new client.Consumer(own);
    const producer = new client.Producer(shared);
    try {
      const topics = retries === undefined ? [topic] : [topic, retries];
      await new Run(this.#options, pool, producer).run(member, reader, new Fetcher(client, reader), topics);
    } finally {
      pool.close();
      await Promise.all([reader, producer].map((each) => closeClient(each, CLOSE)));
    }
  }
}

/** One run of a consumer. */
class Run {
  readonly #changed = new Changed();
  readonly #partitions = new Partitions();

  constructor(
    private readonly options: TopicOptions,
    private readonly pool: Pool,
    private readonly producer: Producer,
  ) {
    producer.on('error', (error: Error) => pool.say('copies cannot be stored for now', textOf(error)));
  }

  async run(member: Consumer, client: Consumer, fetcher: Fetcher, topics: string[]): Promise<void> {
    const reader = new Reader(client, fetcher, topics, this.#partitions, this.pool, this.#changed);
    const group = new Group(member, reader, this.#partitions, this.pool, this.#changed, topics);
    try {
      void group.join();
      void reader.read();
      void group.commits();
      void group.watch();
      for (let taken = await this.#next(); taken; taken = await this.#next()) {
        const begun = taken;
        this.pool.go(() => this.#settle(begun));
      }
      await this.pool.wait();
    } finally {
      await group.leave();
    }
  }

  /** The next message, and a slot for it; `undefined` where the pool has ended. */
  async #next(): Promise<Taken | undefined> {
    if ((await this.pool.acquire(1)) === 0) return undefined;
    while (!this.pool.ended) {
      for (const partition of this.#partitions.all) {
        const taken = partition.begin();
        if (!taken) continue;
        this.#partitions.begun(partition);
        if (this.#early(taken)) continue;
        return taken;
      }
      await this.#changed.wait(IDLE);
    }
    this.pool.release(1);
    return undefined;
  }

  /** Whether a message of the retry topic is not due yet: then it is held. */
  #early(taken: Taken): boolean {
    const { message } = taken;
    if (message.topic !== this.options.retries || taken.held) return false;
    const dues = message.headers.filter(([name]) => name === DUE);
    const due = Number(dues.at(-1)?.[1]?.toString() ?? '');
    if (!(due > Date.now())) return false;
    this.#hold(taken, due - Date.now());
    return true;
  }

  #hold(taken: Taken, delayMs: number): void {
    taken.partition.hold(taken, delayMs, this.#changed.notify);
  }

  /** Processes a message. An unfinished message stays uncommitted, and is held unless its partition is revoked. */
  async #settle(taken: Taken): Promise<void> {
    const { topic, handler, named: name = named, retries, deadLetters = `${topic}.dead` } = this.options;
    const { message, partition } = taken;
    const naming = (): Named => name(topic, message);
    const { advice, delayMs, reason, begun } =
      handler === STORE
        ? await this.pool.store(partition.stopping, naming, kept(message))
        : await this.pool.process(partition.stopping, naming, message.value ?? NOTHING, (claim, signal) =>
            handler(claim, message, signal),
          );
    // Another member has it again, and the ledger knows what became of it.
    if (!begun || partition.gone) return;
    // With a retry topic it is asked for once: the member may be gone, and its lease may be long.
    const isAsked = reason === IN_PROGRESS && (retries === undefined || !taken.held);
    if (advice === Advice.RETRY_LATER && (retries === undefined || isAsked)) {
      this.#hold(taken, isAsked ? Math.min(delayMs, ASK) : delayMs);
      return;
    }
    try {
      if (advice === Advice.RETRY_LATER)
        await this.#copy(message, retries ?? '', DUE, String(Math.ceil(Date.now() + delayMs)));
      else if (advice === Advice.DEAD_LETTER) await this.#copy(message, deadLetters, REASON, reason);
    } catch (error) {
      this.pool.say('a copy of a message is not stored; the message is kept', textOf(error));
      this.#hold(taken, COPY_AGAIN);
      return;
    }
    partition.finish(taken);
    this.#changed.notify();
  }

  /**
   * Stores a copy in a topic; resolves when all in-sync replicas have it.
   *
   * Its timestamp is new: by the original one the retention of the topic might delete it immediately.
   */
  async #copy({ key, value, headers }: KafkaMessage, topic: string, header: string, text: string): Promise<void> {
    const kept = headers.filter(([name]) => name !== DUE && name !== header);
    // Each name is another object, so that a name which is there several times stays so.
    const copied = new Map(kept.map(([name, each]) => [Buffer.from(name), each ?? Buffer.alloc(0)]));
    copied.set(Buffer.from(header), Buffer.from(text));
    const message = { topic, headers: copied, ...(key && { key }), ...(value && { value }) };
    const sent = this.producer.send({ messages: [message], acks: ALL_REPLICAS });
    const late = new AbortController();
    const timeout = sleep(COPY, late.signal).then(() => {
      if (!late.signal.aborted) throw new LedgerError(`Kafka has not confirmed a copy within ${COPY} ms`);
    });
    try {
      await Promise.race([sent, timeout]);
    } finally {
      late.abort();
    }
  }
}
