/**
 * Amazon SQS, and what speaks its protocol: the messages of a queue, each processed once. It needs `@aws-sdk/client-sqs`.
 *
 * @packageDocumentation
 */
import {
  ChangeMessageVisibilityCommand,
  DeleteMessageCommand,
  type Message,
  ReceiveMessageCommand,
  type SQSClient,
  SendMessageCommand,
} from '@aws-sdk/client-sqs';
import type { Claim, Result } from '../claim.js';
import { InvalidField } from '../errors.js';
import { Key } from '../key.js';
import { type Names, checkNames } from '../known-options.js';
import type { Message as Kept } from '../message.js';
import { Advice } from '../outcome.js';
import { type Named, NoId, namedByCloudEvent } from './name.js';
import { type ConsumerOptions, Pool, STORE, type Verdict, checkConsumer, checkText, textOf } from './pool.js';

export { type Named, NoId } from './name.js';
export { type ConsumerOptions, STORE } from './pool.js';

const RECEIVE_S = 1; // seconds that a call waits for messages: the end of the signal is noticed after it
const RECEIVE_AGAIN = 1_000;
const BATCH = 10; // messages that a call may receive: SQS allows no more
const ATTRIBUTES_MAX = 10; // attributes that a message may have
const SECOND = 1_000;
const VISIBILITY_MAX = 43_200 * SECOND; // SQS allows no more
const REASON = 'dead-letter-reason';
const PASSING = /Throttl|OverLimit/; // errors that SQS calls the client's, and that pass

/** Processes a message whose claim was granted: see `Handler` of the package. */
export type SqsHandler = (claim: Claim, message: Message, signal: AbortSignal) => Promise<Result> | Result;

/** The options of an `SqsConsumer`. */
export interface SqsOptions extends ConsumerOptions {
  /** A client of SQS. */
  client: SQSClient;
  /** The URL of the queue. */
  queue: string;
  /** Has the effect: returns and throws what a handler of `Ledger.process` does; or {@link STORE}. */
  handler: SqsHandler | typeof STORE;
  /** The name of a message; it throws {@link NoId} where there is none, and any other error ends `run`. By default {@link named}. */
  named?: ((queue: string, message: Message) => Named) | undefined;
  /**
   * After how many milliseconds SQS delivers a message again whose consumer is gone: whole seconds, 1 second to 12 hours, by
   * default 60 seconds. Best longer than lease and grace.
   */
  visibilityMs?: number | undefined;
  /**
   * The URL of the queue of the dead letters. By default a dead letter is left to the redrive policy of the queue, which then
   * must have one.
   */
  deadLetters?: string | undefined;
}

const OPTIONS: Names<SqsOptions> = {
  ledger: true,
  client: true,
  queue: true,
  handler: true,
  named: true,
  visibilityMs: true,
  deadLetters: true,
  concurrency: true,
  graceMs: true,
};

/**
 * The name of a message: that of its CloudEvent, else the name of the queue and the message attribute `id`, or the
 * `MessageDeduplicationId` of a FIFO queue. `MessageId` names nothing: a producer that repeats itself gets another one.
 */
export function named(queue: string, message: Message): Named {
  const found = new Map<string, string>();
  for (const [name, { StringValue: value }] of Object.entries(message.MessageAttributes ?? {})) {
    if (value !== undefined) found.set(name, value);
  }
  const event = namedByCloudEvent(found, bodyOf(message));
  if (event) return event;
  const id = found.get('id') ?? message.Attributes?.MessageDeduplicationId;
  if (!id) {
    throw new NoId('the message has neither the attributes of a CloudEvent, nor one called id, nor a deduplication id');
  }
  return { key: Key.of(queue.split('/').at(-1) ?? '', id) };
}

function bodyOf(message: Message): Uint8Array {
  return Buffer.from(message.Body ?? '');
}

/** The message for the inbox: its body, and its attributes as headers. */
function kept(queue: string, message: Message): Kept {
  const attributes = Object.entries(message.MessageAttributes ?? {});
  const headers = attributes.map(
    ([name, { StringValue: text = '', BinaryValue: bytes }]) => [name, bytes ?? Buffer.from(text)] as const,
  );
  return { payload: bodyOf(message), headers, topic: queue.split('/').at(-1) ?? '' };
}

/**
 * Processes the messages of a queue of SQS.
 *
 * What each outcome becomes: `ACK` deletes the message; `RETRY_LATER` changes its visibility to the outcome's delay, in whole
 * seconds; `DEAD_LETTER` is a copy, then the message is deleted. While a message is processed its visibility is extended at a
 * third of it. In a FIFO queue a message that is processed later holds up those of its group, as SQS means it.
 *
 * ```ts
 * await new SqsConsumer({ ledger, client: new SQSClient(), queue: url, handler: pay, deadLetters: deadUrl }).run(stop.signal);
 * ```
 */
export class SqsConsumer {
  readonly #options: SqsOptions;

  /** Throws {@link InvalidField} for an option beyond its bound, or that is not one. */
  constructor(options: SqsOptions) {
    checkNames(options, OPTIONS, 'new SqsConsumer');
    checkConsumer(options);
    checkText('queue', options.queue);
    if (options.deadLetters !== undefined) checkText('deadLetters', options.deadLetters);
    if (typeof (options.client as Partial<SQSClient> | undefined)?.send !== 'function') {
      throw new InvalidField('client', 'must be an SQSClient');
    }
    const { visibilityMs = 60 * SECOND } = options;
    if (!(visibilityMs % SECOND === 0 && visibilityMs >= SECOND && visibilityMs <= VISIBILITY_MAX)) {
      throw new InvalidField('visibilityMs', `${visibilityMs} ms is not whole seconds within 1 second and 12 hours`);
    }
    this.#options = { ...options, visibilityMs };
  }

  /**
   * Takes messages until `stop` is aborted, and resolves when those that it has taken are settled. What it has received and not
   * begun is given back.
   *
   * Rejects where SQS refuses to hand out messages (no such queue, no permission), where the ledger is closed, and where
   * handlers still run after the grace. While SQS does not answer it tries again.
   */
  async run(stop: AbortSignal): Promise<void> {
    const pool = new Pool(this.#options, `queue ${this.#options.queue}`, stop);
    try {
      await new Run(this.#options, pool).run();
    } finally {
      pool.close();
    }
  }
}

/** One run of a consumer. */
class Run {
  readonly #visibility: number; // seconds

  constructor(
    private readonly options: SqsOptions,
    private readonly pool: Pool,
  ) {
    this.#visibility = (options.visibilityMs ?? 0) / SECOND;
  }

  async run(): Promise<void> {
    for (let slots = await this.pool.acquire(BATCH); slots > 0; slots = await this.pool.acquire(BATCH)) {
      let used = 0;
      try {
        for (const message of await this.#receive(slots)) {
          used += 1;
          this.pool.go(() => this.#settle(message));
        }
      } catch (error) {
        await this.#failed(error);
      }
      this.pool.release(slots - used);
    }
    await this.pool.wait();
  }

  async #receive(most: number): Promise<Message[]> {
    const answer = await this.options.client.send(
      new ReceiveMessageCommand({
        QueueUrl: this.options.queue,
        MaxNumberOfMessages: most,
        WaitTimeSeconds: RECEIVE_S,
        VisibilityTimeout: this.#visibility,
        MessageAttributeNames: ['All'],
        MessageSystemAttributeNames: ['All'],
      }),
    );
    return answer.Messages ?? [];
  }

  /** Waits where messages may be received again, and ends the run where they may not. */
  async #failed(error: unknown): Promise<void> {
    if (this.pool.ended) return;
    const { $fault: fault, name = '' } = error as { $fault?: unknown; name?: string };
    if (fault === 'client' && !PASSING.test(name)) {
      this.pool.fail(error);
      return;
    }
    this.pool.say('no message can be received for now', textOf(error));
    await this.pool.sleep(RECEIVE_AGAIN);
  }

  /** Processes a message, and acknowledges it. */
  async #settle(message: Message): Promise<void> {
    const { handler, named: name = named, queue } = this.options;
    let extended = Promise.resolve();
    const extend = (): void => {
      extended = this.#said('kept', () => this.#visibleAfter(message, this.#visibility));
    };
    const extending = setInterval(extend, (this.#visibility * SECOND) / 3);
    let verdict: Verdict;
    try {
      const { signal: stopping } = this.pool;
      const naming = (): Named => name(queue, message);
      verdict =
        handler === STORE
          ? await this.pool.store(stopping, naming, kept(queue, message))
          : await this.pool.process(stopping, naming, bodyOf(message), (claim, signal) =>
              handler(claim, message, signal),
            );
    } finally {
      clearInterval(extending);
    }
    await extended; // From here on its visibility is that of the outcome.
    await this.#said('acknowledged', () => this.#answer(message, verdict));
  }

  async #answer(message: Message, { advice, delayMs, reason, begun }: Verdict): Promise<void> {
    if (!begun || advice === Advice.RETRY_LATER) {
      await this.#visibleAfter(message, begun ? Math.ceil(Math.min(delayMs, VISIBILITY_MAX) / SECOND) : 0);
      return;
    }
    if (advice === Advice.DEAD_LETTER) {
      // Without a queue SQS counts the deliveries, and moves the message by the queue's redrive policy.
      if (this.options.deadLetters === undefined) return;
      await this.#deadLetter(message, reason, this.options.deadLetters);
    }
    const { client, queue } = this.options;
    await client.send(new DeleteMessageCommand({ QueueUrl: queue, ReceiptHandle: message.ReceiptHandle }));
  }

  async #deadLetter(message: Message, reason: string, deadLetters: string): Promise<void> {
    const attributes = { ...message.MessageAttributes };
    if (Object.keys(attributes).length < ATTRIBUTES_MAX || REASON in attributes) {
      // SQS takes no empty text, and no control characters.
      const text = reason.replace(/[^\t\n\r -\ud7ff\ue000-\ufffd]/g, '?') || 'DEAD_LETTER';
      attributes[REASON] = { DataType: 'String', StringValue: text };
    }
    // In a FIFO queue the copy of a message of the broker is stored once, in the order of its group.
    const fifo = deadLetters.endsWith('.fifo') && {
      MessageGroupId: message.Attributes?.MessageGroupId ?? 'dead',
      MessageDeduplicationId: message.MessageId,
    };
    await this.options.client.send(
      new SendMessageCommand({
        QueueUrl: deadLetters,
        MessageBody: message.Body,
        MessageAttributes: attributes,
        ...fifo,
      }),
    );
  }

  async #visibleAfter(message: Message, seconds: number): Promise<void> {
    const { client, queue } = this.options;
    const change = { QueueUrl: queue, ReceiptHandle: message.ReceiptHandle, VisibilityTimeout: seconds };
    await client.send(new ChangeMessageVisibilityCommand(change));
  }

  /** Logs where a call is refused: SQS delivers the message again, and the ledger knows what became of it. */
  async #said(what: string, call: () => Promise<void>): Promise<void> {
    try {
      await call();
    } catch (error) {
      this.pool.say(`a message is not ${what}`, textOf(error));
    }
  }
}
