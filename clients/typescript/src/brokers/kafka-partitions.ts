import { sleep } from '../timing.js';

/** How many messages of a partition are taken beyond its oldest one that is not done: a crash repeats them. */
const AHEAD = 10_000;

/** A message of Kafka. */
export interface KafkaMessage {
  /** Where it is stored: its topic. */
  readonly topic: string;
  /** The number of its partition. */
  readonly partition: number;
  /** Its place in the partition. */
  readonly offset: bigint;
  /** When it was made or stored, in milliseconds since 1970. */
  readonly timestamp: bigint;
  /** What chose its partition. */
  readonly key: Buffer | null;
  /** Its body. */
  readonly value: Buffer | null;
  /** Its headers in their order; a name may be there several times. */
  readonly headers: readonly (readonly [name: string, value: Buffer | null])[];
}

/** Wakes what waits for a change. */
export class Changed {
  readonly #waiting = new Set<AbortController>();

  notify = (): void => {
    for (const each of this.#waiting) each.abort();
    this.#waiting.clear();
  };

  /** Waits for a change, at most this number of milliseconds. */
  async wait(most: number): Promise<void> {
    const early = new AbortController();
    this.#waiting.add(early);
    await sleep(most, early.signal);
    this.#waiting.delete(early);
  }
}

/** The partitions that are assigned. */
export class Partitions {
  readonly #assigned = new Map<string, Partition>();

  /** In the order in which their messages begin next: the partition of the last `begun` is the last one. */
  get all(): Partition[] {
    return [...this.#assigned.values()];
  }

  /** Adds a partition; it replaces the one of the same topic and number. */
  add(partition: Partition): void {
    this.#assigned.set(keyOf(partition), partition);
  }

  /** A message of the partition has begun: those of the others are next. */
  begun(partition: Partition): void {
    const key = keyOf(partition);
    if (this.#assigned.delete(key)) this.#assigned.set(key, partition);
  }

  /** Gives up all of them. */
  revoke(): void {
    for (const partition of this.#assigned.values()) partition.revoke();
    this.#assigned.clear();
  }
}

const keyOf = ({ topic, number }: Partition): string => `${topic}:${number}`;

/** A message that was taken. */
export interface Taken {
  readonly message: KafkaMessage;
  readonly partition: Partition;
  done: boolean;
  held: boolean;
}

/** What one assignment of a partition has taken and not done. */
export class Partition {
  /** The offset that is fetched next. */
  next: bigint;
  /** The broker does not know the topic by its id, which may be deleted: nothing is committed meanwhile. */
  unknown = false;
  readonly #stopping = new AbortController();
  /** From the oldest one on that is not done, by their offsets. */
  readonly #taken: Taken[] = [];
  readonly #waiting: Taken[] = [];
  #due: Taken[] = [];
  #held = 0;
  #gone = false;

  /**
   * `topicId` is another one where the topic is deleted and made again; `next` is the first offset to fetch, `committed` what the
   * group has committed: -1 where that is nothing.
   */
  constructor(
    readonly topic: string,
    readonly topicId: string,
    readonly number: number,
    next: bigint,
    public committed: bigint,
  ) {
    this.next = next;
  }

  /** It is revoked: nothing of it is committed any more. */
  get gone(): boolean {
    return this.#gone;
  }

  /** Aborted where no message of it may begin any more. */
  get stopping(): AbortSignal {
    return this.#stopping.signal;
  }

  /** Nothing more is taken: a message that comes later must be done first, or the oldest one, far behind the others. */
  get blocked(): boolean {
    return this.held || this.#taken.length >= AHEAD;
  }

  /** A message is held: no message that waits begins before it is done. */
  get held(): boolean {
    return this.#held > 0;
  }

  /** How many messages wait until they may begin. */
  get waiting(): number {
    return this.#waiting.length;
  }

  /** The offset that may be committed: everything before it is done. */
  get done(): bigint {
    return this.#taken[0]?.message.offset ?? this.next;
  }

  /** Enters a message, whose offset is not before `next`. */
  take(message: KafkaMessage): Taken {
    const taken = { message, partition: this, done: false, held: false };
    this.next = message.offset + 1n;
    this.#taken.push(taken);
    this.#waiting.push(taken);
    return taken;
  }

  /** The next message that may begin: one that is due again, else one that waits, unless another one must be done first. */
  begin(): Taken | undefined {
    if (this.#stopping.signal.aborted) return undefined;
    return this.#due.shift() ?? (this.held ? undefined : this.#waiting.shift());
  }

  /** Lets a message begin again after the delay, and calls `wake` then. No message that waits begins before it is done. */
  hold(taken: Taken, delayMs: number, wake: () => void): void {
    if (!taken.held) this.#held += 1;
    taken.held = true;
    void sleep(delayMs, this.stopping).then(() => {
      if (this.stopping.aborted) return;
      this.#due.push(taken);
      wake();
    });
  }

  /** Removes the messages that wait from memory: the next fetch begins with the first of them. */
  dropWaiting(): void {
    const first = this.#waiting[0];
    if (!first) return;
    this.next = first.message.offset;
    // The messages that wait are the last ones that were taken.
    this.#taken.length -= this.#waiting.length;
    this.#waiting.length = 0;
  }

  /** The message is done. */
  finish(taken: Taken): void {
    taken.done = true;
    if (taken.held) this.#held -= 1;
    while (this.#taken[0]?.done) this.#taken.shift();
  }

  /** No message may begin any more. */
  stop(): void {
    this.#stopping.abort();
  }

  /** It belongs to another member by now, or soon will. */
  revoke(): void {
    this.#gone = true;
    this.stop();
  }
}
