import type { Channel, ChannelModel, ConfirmChannel, ConsumeMessage, Options } from 'amqplib';
import { LedgerError } from '../errors.js';

/** The header of a dead letter that says why it is one. */
const REASON = 'dead-letter-reason';
/** The header of a postponed message that says when it is due, in milliseconds since 1970. */
const DUE = 'retry-at';

const CONFIRM = 10_000; // milliseconds within which the server confirms a copy

// The seconds of the delay queues. A queue has one delay, since RabbitMQ expires its head alone: a longer one would hold up the
// others. The packages for Python and Go declare the same.
const DELAYS = [1, 2, 5, 10, 30, 60, 300, 900] as const;
const SHORTEST = 1;
const LONGEST = 900;

// Headers that a copy does not have: CC and BCC would send it to further queues, and the others are the server's account of the
// original.
const LEFT = /^(CC|BCC|x-death|x-delivery-count|x-acquired-count|x-(first|last)-death-(exchange|queue|reason))$/;

type Headers = Record<string, unknown>;

/** For how many milliseconds a postponed message must still wait. */
export function notDueFor(message: ConsumeMessage): number {
  const due: unknown = message.properties.headers?.[DUE];
  if (typeof due !== 'number') return 0;
  // A clock that is wrong delays no message for longer than the longest queue at a time.
  return Math.min(due - Date.now(), LONGEST * 1_000);
}

/** The longest delay queue that does not exceed the delay, in seconds; the shortest one where there is none. */
export function turnOf(delayMs: number): number {
  return DELAYS.filter((seconds) => seconds * 1_000 <= delayMs).at(-1) ?? SHORTEST;
}

/** Declares a durable queue unless there is one of that name; by default a quorum queue without a delivery limit. */
export async function declare(connection: ChannelModel, queue: string, wanted?: Headers): Promise<void> {
  // The server closes the channel that asks for a queue which does not exist, so that each question has its own.
  const missing = await asked(connection, async (channel) => {
    try {
      await channel.checkQueue(queue);
      return false;
    } catch (error) {
      if ((error as { code?: unknown }).code === 404) return true;
      throw error;
    }
  });
  if (!missing) return;
  await asked(connection, (channel) => {
    const given = wanted ?? unlimited(channel.connection.serverProperties.version);
    return channel.assertQueue(queue, { durable: true, arguments: given });
  });
}

/** The arguments of a quorum queue without a delivery limit; before RabbitMQ 4 a queue without the argument has none. */
export function unlimited(version: string | undefined): Headers {
  const limit = Number.parseInt(version ?? '', 10) >= 4 ? { 'x-delivery-limit': -1 } : {};
  return { 'x-queue-type': 'quorum', ...limit };
}

async function asked<T>(connection: ChannelModel, ask: (channel: Channel) => Promise<T>): Promise<T> {
  const channel = await connection.createChannel();
  channel.on('error', () => undefined); // The question rejects with it.
  try {
    return await ask(channel);
  } finally {
    await quietly(() => channel.close()); // Else the server has closed it.
  }
}

/** Waits for a call that may be refused, also immediately, by a channel that is closed. */
export async function quietly(call: () => Promise<unknown>): Promise<void> {
  try {
    await call();
  } catch {
    // What the channel had is over.
  }
}

/** Publishes copies of messages, one at a time, over a channel that confirms them. */
export class Copies {
  readonly #declared = new Set<string>();
  #last: Promise<unknown> = Promise.resolve();
  /** The queues of copies that no queue has taken. */
  readonly #returned = new Set<string>();

  constructor(
    private readonly connection: ChannelModel,
    private readonly channel: ConfirmChannel,
  ) {
    channel.on('return', (copy) => {
      this.#returned.add(copy.fields.routingKey);
    });
  }

  /** Stores a copy in the longest delay queue that does not exceed the delay, or in the shortest one. */
  async postpone(queue: string, message: ConsumeMessage, delayMs: number): Promise<void> {
    const due: unknown = message.properties.headers?.[DUE];
    const now = Date.now();
    // A message whose time has not come keeps it.
    const at = typeof due === 'number' && due > now ? due : Math.ceil(now + delayMs);
    const seconds = turnOf(delayMs);
    const name = `${queue}.later.${seconds}s`;
    await this.#delayed(name, queue, seconds);
    await this.store(message, name, { [DUE]: at });
  }

  /** Stores a copy in the queue of the dead letters, which is declared again where it was deleted. */
  async deadLetter(queue: string, message: ConsumeMessage, reason: string): Promise<void> {
    if (!this.#declared.has(queue)) await declare(this.connection, queue);
    this.#declared.add(queue);
    await this.store(message, queue, { [REASON]: reason });
  }

  /** Publishes a copy to a queue, and resolves when the server has confirmed that the queue has it. */
  async store(message: ConsumeMessage, queue: string, more: Headers): Promise<void> {
    const kept = { ...message.properties } as Options.Publish;
    delete kept.expiration; // It would drop the copy.
    delete kept.userId; // This connection may be another user's.
    const given = Object.entries((kept.headers ?? {}) as Headers);
    const headers = Object.fromEntries(given.filter(([name]) => !LEFT.test(name) && name !== DUE));
    const options = { ...kept, headers: { ...headers, ...more }, persistent: true, mandatory: true };
    const stored = this.#last.then(() => this.#confirmed(queue, message.content, options));
    this.#last = stored.catch(() => undefined);
    await stored;
  }

  async #confirmed(queue: string, body: Buffer, options: Options.Publish): Promise<void> {
    this.#returned.clear();
    let timer: NodeJS.Timeout | undefined;
    try {
      await new Promise<void>((resolve, reject) => {
        const late = () => reject(new LedgerError(`RabbitMQ has not confirmed a copy within ${CONFIRM} ms`));
        timer = setTimeout(late, CONFIRM);
        this.channel.publish('', queue, body, options, (error: unknown) => {
          if (error) reject(error instanceof Error ? error : new LedgerError(`the queue ${queue} refuses the copy`));
          else resolve();
        });
      });
    } finally {
      clearTimeout(timer);
    }
    // What no queue has is returned, and confirmed after that.
    if (!this.#returned.has(queue)) return;
    this.#declared.delete(queue);
    throw new LedgerError(`the queue ${queue} does not exist`);
  }

  /** Declares a delay queue, once. Its messages go back to the queue, and leave it when that has confirmed them. */
  async #delayed(name: string, back: string, seconds: number): Promise<void> {
    if (this.#declared.has(name)) return;
    await declare(this.connection, name, {
      'x-queue-type': 'quorum',
      'x-dead-letter-exchange': '',
      'x-dead-letter-routing-key': back,
      'x-dead-letter-strategy': 'at-least-once',
      'x-overflow': 'reject-publish',
      'x-message-ttl': seconds * 1_000,
    });
    this.#declared.add(name);
  }
}
