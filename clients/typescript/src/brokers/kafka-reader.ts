import type { Broker, Consumer, GroupAssignment } from '@platformatic/kafka' with { 'resolution-mode': 'import' };
import { isLasting, reasonOf } from './kafka-errors.js';
import type { Fetcher, Found, Wanted } from './kafka-fetch.js';
import { type Changed, type KafkaMessage, Partition, type Partitions } from './kafka-partitions.js';
import type { Pool } from './pool.js';

const IDLE = 500; // milliseconds until partitions may be fetched again
const AGAIN = 1_000; // milliseconds until a fetch that was refused is tried again
const CROWDED = 1_000; // messages that wait for a free slot; half of them must begin before more are fetched
const EARLIEST = -2n;
const NO_ID = '00000000-0000-0000-0000-000000000000';
const UNKNOWN = [3, 100, 103]; // what a broker answers where it does not know a topic, its id, or knows another id of it
const [OUT_OF_RANGE, TRANSACTIONAL, CONTROL, ABORT] = [1, 0x10, 0x20, 0];

type Asked = Wanted & { readonly partition: Partition };

/**
 * Fetches the messages of the assigned partitions. Its client is not the member of the group, since a fetch that waits would hold
 * up the heartbeats of the same connection.
 */
export class Reader {
  /** The id of each topic of which partitions were assigned. */
  readonly #ids = new Map<string, string>();
  #crowded = false;

  constructor(
    private readonly client: Consumer,
    private readonly fetcher: Fetcher,
    private readonly topics: readonly string[],
    private readonly partitions: Partitions,
    private readonly pool: Pool,
    private readonly changed: Changed,
  ) {
    client.topics.trackAll(...topics);
    // A call that fails rejects as well.
    client.on('error', () => undefined);
  }

  /** Fetches messages until the pool ends. */
  async read(): Promise<void> {
    while (!this.pool.ended) {
      const wanted = this.#wanted();
      try {
        if (wanted.length === 0 || !(await this.#fetch(wanted))) await this.changed.wait(IDLE);
      } catch (error) {
        this.failed('messages cannot be read for now', error);
        this.client.clearMetadata();
        await this.pool.sleep(AGAIN);
      }
    }
  }

  /**
   * The partitions to fetch from; none while many messages wait for a free slot.
   *
   * Messages that wait behind a held message use no slot, perhaps for minutes. While many messages wait, those are dropped and
   * fetched again later: else one held partition with CROWDED messages would stop all partitions.
   */
  #wanted(): Partition[] {
    const all = this.partitions.all;
    if (this.#isCrowded(all)) {
      for (const partition of all) if (partition.held) partition.dropWaiting();
      this.#crowded = this.#isCrowded(all);
    } else {
      this.#crowded = false;
    }
    return this.#crowded ? [] : all.filter(({ blocked }) => !blocked);
  }

  #isCrowded(partitions: Partition[]): boolean {
    const waiting = partitions.reduce((sum, { waiting: each }) => sum + each, 0);
    return waiting >= CROWDED || (this.#crowded && waiting > CROWDED / 2);
  }

  /** Logs what is refused for now, and ends the run where a repeat would be refused as well. */
  failed(what: string, error: unknown): void {
    if (this.pool.ended) return;
    if (isLasting(error)) this.pool.fail(error);
    else this.pool.say(what, reasonOf(error));
  }

  /**
   * The assigned partitions, each at the offset that the group has committed, else at its first message. Where the topic was made
   * again since this run began, the offset that is committed may be one of the former topic, and is not used.
   */
  async positions(topics: GroupAssignment[]): Promise<Partition[]> {
    const names = topics.map(({ topic }) => topic);
    const metadata = await this.client.metadata({ topics: [...names], forceUpdate: true });
    const committed = await this.client.listCommittedOffsets({ topics });
    const partitions = Object.fromEntries(topics.map(({ topic, partitions: numbers }) => [topic, numbers]));
    const first = await this.client.listOffsets({ topics: names, partitions, timestamp: EARLIEST });
    return topics.flatMap(({ topic, partitions: numbers }) => {
      const topicId = metadata.topics.get(topic)?.id ?? '';
      const again = isMadeAgain(topic, this.#ids.get(topic) ?? topicId, topicId);
      this.#ids.set(topic, topicId);
      return numbers.map((number) => {
        const known = again ? -1n : (committed.get(topic)?.[number] ?? -1n);
        return new Partition(topic, topicId, number, known >= 0n ? known : (first.get(topic)?.[number] ?? 0n), known);
      });
    });
  }

  /**
   * Fetches from the leaders of the partitions; false if no leader is known. Ends when all fetches have ended, also where one fails:
   * no partition is in two fetches, and `dropWaiting` is not called during a fetch.
   */
  async #fetch(wanted: Partition[]): Promise<boolean> {
    const metadata = await this.client.metadata({ topics: [...this.topics] });
    const nodes = new Map<number, Asked[]>();
    for (const partition of wanted) {
      const { topic, number, next } = partition;
      const known = metadata.topics.get(topic);
      const leader = known?.partitions[number]?.leader ?? -1;
      if (!known || !metadata.brokers.has(leader)) continue;
      if (isMadeAgain(topic, partition.topicId, known.id))
        await this.#reset(partition, known.id, 'the topic was deleted and made again');
      else nodes.set(leader, [...(nodes.get(leader) ?? []), { topic, topicId: known.id, number, next, partition }]);
    }
    const fetches = [...nodes].map(([node, asked]) => this.#fetchFrom(metadata.brokers.get(node), asked));
    for (const ended of await Promise.allSettled(fetches)) if (ended.status === 'rejected') throw ended.reason as Error;
    return nodes.size > 0;
  }

  async #fetchFrom(broker: Broker | undefined, asked: Asked[]): Promise<void> {
    if (!broker) return;
    const { found, refused } = await this.fetcher.fetch(broker, asked);
    for (const [{ partition, next }, each] of found) {
      // An answer that does not begin at `next` would leave out the messages before it, which would be committed all the same.
      if (partition.gone || partition.next !== next) continue;
      partition.unknown = UNKNOWN.includes(each.errorCode);
      if (each.errorCode === 0) take(partition, each);
      else if (each.errorCode === OUT_OF_RANGE)
        await this.#reset(partition, partition.topicId, 'messages were deleted before they were read');
    }
    this.changed.notify();
    if (refused !== undefined) throw refused as Error;
  }

  /**
   * Begins with the first message again: messages were deleted, or the topic was truncated or made again. The ledger recognises
   * messages that were processed; what still runs of the former offsets is not committed.
   */
  async #reset(partition: Partition, topicId: string, what: string): Promise<void> {
    const { topic, number } = partition;
    const found = await this.client.listOffsets({
      topics: [topic],
      partitions: { [topic]: [number] },
      timestamp: EARLIEST,
    });
    const first = found.get(topic)?.[number];
    if (first === undefined || partition.gone) return;
    this.pool.say(what, `partition ${number} of ${topic} begins at its first message`);
    partition.revoke();
    this.#ids.set(topic, topicId);
    this.partitions.add(new Partition(topic, topicId, number, first, -1n));
    this.changed.notify();
  }
}

/**
 * Whether a topic was deleted and made again, by its ids. Brokers before Kafka 2.8 have no ids: then the client has the name or zeros.
 */
function isMadeAgain(topic: string, former: string, now: string): boolean {
  return former !== now && ![former, now].some((id) => id === topic || id === NO_ID);
}

/** Enters the messages of a partition, without the markers of transactions and the messages of transactions that were aborted. */
export function take(
  partition: Partition,
  { records, abortedTransactions }: Pick<Found, 'records' | 'abortedTransactions'>,
): void {
  const aborted = [...(abortedTransactions ?? [])].sort((a, b) => (a.firstOffset < b.firstOffset ? -1 : 1));
  const open = new Set<bigint>();
  for (const batch of records ?? []) {
    const last = batch.firstOffset + BigInt(batch.lastOffsetDelta);
    for (let each = aborted[0]; each && each.firstOffset <= last; each = aborted[0]) {
      open.add(each.producerId);
      aborted.shift();
    }
    if (batch.attributes & CONTROL) {
      if (batch.records[0]?.key?.readInt16BE(2) === ABORT) open.delete(batch.producerId);
    } else if (!(batch.attributes & TRANSACTIONAL && open.has(batch.producerId))) {
      for (const record of batch.records) {
        const offset = batch.firstOffset + BigInt(record.offsetDelta);
        // A batch is sent whole, also where the fetch begins amid it.
        if (offset < partition.next) continue;
        const { key, value } = record;
        const timestamp = batch.firstTimestamp + record.timestampDelta;
        const headers = record.headers.map(([name, each]): KafkaMessage['headers'][number] => [
          String(name ?? ''),
          each,
        ]);
        partition.take({ topic: partition.topic, partition: partition.number, offset, timestamp, key, value, headers });
      }
    }
    if (last >= partition.next) partition.next = last + 1n;
  }
}
