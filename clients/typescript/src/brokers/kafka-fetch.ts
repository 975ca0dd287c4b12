import type * as Kafka from '@platformatic/kafka' with { 'resolution-mode': 'import' };
import { LedgerError } from '../errors.js';
import { type FetchResponse, responseOf } from './kafka-errors.js';

const WAIT = 500; // milliseconds that a fetch waits for messages
const FETCH_MAX = 4 << 20; // bytes of a fetch
const PARTITION_MAX = 1 << 20; // bytes of a partition in a fetch
const READ_COMMITTED = 1;
const [NO_SESSION, SESSIONLESS] = [0, -1];
const NAMES_UNTIL = 12; // the last version of a fetch that names topics instead of their ids

/** A partition to fetch from, and the first offset to fetch. */
export interface Wanted {
  readonly topic: string;
  readonly topicId: string;
  readonly number: number;
  readonly next: bigint;
}

/** What a broker answers for a partition. */
export type Found = FetchResponse['responses'][number]['partitions'][number];

/** What a broker answers: a partition each, with the one that was wanted; and why it refused a part, else `undefined`. */
export interface Fetched<T extends Wanted> {
  readonly found: (readonly [wanted: T, found: Found])[];
  readonly refused: unknown;
}

type Send = typeof Kafka.fetchV13.api.async;
type Topic = Kafka.fetchV13.FetchRequestTopic;

/**
 * Sends fetches by the functions of the client's protocol, and not by `Consumer.fetch`: that drops messages of committed
 * transactions where the broker lists several aborted transactions of a producer and not the last one last, and throws in the
 * handler of a socket where compaction has emptied the marker of an aborted transaction. The caller filters.
 */
export class Fetcher {
  #version: number | undefined;

  constructor(
    private readonly kafka: Record<string, unknown>,
    private readonly client: Pick<Kafka.Consumer, 'listApis' | 'connections'>,
  ) {}

  /** Fetches from a broker. Rejects where nothing was answered. */
  async fetch<T extends Wanted>(broker: Kafka.Broker, wanted: readonly T[]): Promise<Fetched<T>> {
    const version = (this.#version ??= await this.#newest());
    const idOf = ({ topic, topicId }: Wanted): string => (version <= NAMES_UNTIL ? topic : topicId);
    const topics = new Map<string, Topic>();
    for (const each of wanted) {
      const topicId = idOf(each);
      const { partitions } = topics.get(topicId) ?? ({ partitions: [] } as Pick<Topic, 'partitions'>);
      partitions.push({
        partition: each.number,
        fetchOffset: each.next,
        partitionMaxBytes: PARTITION_MAX,
        currentLeaderEpoch: -1,
        lastFetchedEpoch: -1,
      });
      topics.set(topicId, { topicId, partitions });
    }
    const connection = await this.client.connections.get(broker);
    let response: FetchResponse | undefined;
    let refused: unknown;
    try {
      const asked = [...topics.values()];
      const send = this.#send(version);
      response = await send(connection, WAIT, 1, FETCH_MAX, READ_COMMITTED, NO_SESSION, SESSIONLESS, asked, [], '');
    } catch (error) {
      // One partition is refused, and the others have messages.
      response = responseOf(error);
      refused = error;
      if (!response) throw error;
    }
    const found = response.responses.flatMap(({ topicId, partitions }) =>
      partitions.flatMap((each): (readonly [T, Found])[] => {
        const asked = wanted.find((one) => idOf(one) === topicId && one.number === each.partitionIndex);
        return asked ? [[asked, each]] : [];
      }),
    );
    return { found, refused };
  }

  /** The newest version of a fetch that the brokers and the client's module have. */
  async #newest(): Promise<number> {
    const apis = await this.client.listApis();
    const { minVersion, maxVersion } = apis.find(({ name }) => name === 'Fetch') ?? { minVersion: 0, maxVersion: -1 };
    for (let version = maxVersion; version >= minVersion; version--) {
      if (`fetchV${version}` in this.kafka) return version;
    }
    throw new LedgerError(
      `Kafka has no version of a fetch that its client has; Kafka has ${minVersion} to ${maxVersion}`,
    );
  }

  #send(version: number): Send {
    return (this.kafka[`fetchV${version}`] as { api: { async: Send } }).api.async;
  }
}
