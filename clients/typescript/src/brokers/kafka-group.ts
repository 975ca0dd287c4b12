import type { ClusterMetadata, Consumer, GroupAssignment } from '@platformatic/kafka' with {
  'resolution-mode': 'import',
};
import { within } from '../timing.js';
import { closeClient } from './kafka-close.js';
import { isError } from './kafka-errors.js';
import type { Changed, Partitions } from './kafka-partitions.js';
import type { Reader } from './kafka-reader.js';
import type { Pool } from './pool.js';

const AGAIN = 1_000; // milliseconds until what was refused is tried again
const JOIN_AGAIN = 250;
const COMMIT_EVERY = 200;
const WATCH_EVERY = 5_000; // milliseconds; the client keeps its metadata as long
const LAST_COMMIT = 1_000; // milliseconds that the last commit may take
const LEAVE = 2_000; // milliseconds that the leave may take

/** A member of a classic group: it joins, learns its partitions, and commits what is done of them. */
export class Group {
  #assignment = 0;
  #joining = false;
  /** The number of partitions of each topic that this member has divided among the group; empty where another member did. */
  #divided = new Map<string, number>();

  constructor(
    private readonly member: Consumer,
    private readonly reader: Reader,
    private readonly partitions: Partitions,
    private readonly pool: Pool,
    private readonly changed: Changed,
    private readonly topics: readonly string[],
  ) {
    member.topics.trackAll(...topics);
    member.on('error', (error: Error) => this.#lost(error));
    member.on('consumer:group:rebalance', () => {
      void this.commit(); // The partitions still belong to this member; what is not committed now is repeated.
      this.#revoke();
    });
    member.on('consumer:group:join', ({ assignments = [], isLeader }) => {
      this.#divided = isLeader ? countsOf(member.currentMetadata, topics) : new Map<string, number>();
      void this.#assigned(assignments);
    });
    pool.signal.addEventListener('abort', this.#stop, { once: true });
  }

  /** Joins the group, and tries again until that succeeds or cannot. */
  async join(): Promise<void> {
    if (this.#joining) return;
    this.#joining = true;
    while (!this.pool.ended) {
      try {
        await this.member.joinGroup({});
        break;
      } catch (error) {
        this.#failed('the group cannot be joined for now', error);
        await this.pool.sleep(JOIN_AGAIN);
      }
    }
    this.#joining = false;
  }

  /** Commits what is done until the pool ends. */
  async commits(): Promise<void> {
    while (await this.pool.sleep(COMMIT_EVERY)) await this.commit();
  }

  /** Divides the topics again when partitions are added to them, if this member has divided them, until the pool ends. */
  async watch(): Promise<void> {
    while (await this.pool.sleep(WATCH_EVERY)) await this.divideAgain();
  }

  /** Joins the group again if this member has divided topics that have another number of partitions now: this makes it rebalance. */
  async divideAgain(): Promise<void> {
    const divided = this.#divided;
    if (divided.size === 0) return;
    try {
      const counts = countsOf(await this.member.metadata({ topics: [...this.topics] }), this.topics);
      if (divided !== this.#divided || this.#joining) return;
      if ([...divided].every(([topic, count]) => (counts.get(topic) ?? count) === count)) return;
    } catch {
      return; // The topics are asked for again.
    }
    this.pool.say('the group divides its partitions again', 'the number of partitions has changed');
    await this.commit();
    if (divided !== this.#divided) return;
    this.#revoke();
    await this.join();
  }

  /** Commits of each partition the offset to which everything is done. */
  async commit(): Promise<void> {
    const moved = this.partitions.all.filter(({ done, committed, unknown }) => done > committed && !unknown);
    if (moved.length === 0 || this.member.memberId === null) return;
    const places = moved.map((partition) => ({ partition, offset: partition.done }));
    const offsets = places.map(({ partition: { topic, number }, offset }) => ({
      topic,
      partition: number,
      offset,
      leaderEpoch: -1,
    }));
    try {
      await this.member.commit({ offsets });
      for (const { partition, offset } of places) partition.committed = offset;
    } catch (error) {
      // These offsets are committed with the next ones, or the messages are delivered again.
      this.#failed('offsets are not committed', error);
    }
  }

  /** Commits what is done, and leaves the group. */
  async leave(): Promise<void> {
    this.pool.signal.removeEventListener('abort', this.#stop);
    // While the group rebalances the coordinator may not answer: then what is not committed is repeated, and the group waits for
    // the end of the session.
    await within(LAST_COMMIT, this.commit());
    this.#revoke();
    await closeClient(this.member, LEAVE);
  }

  readonly #stop = (): void => {
    for (const partition of this.partitions.all) partition.stop();
    this.changed.notify();
  };

  /** The member is not in the group any more, and its client does not join again by itself. */
  #lost(error: Error): void {
    if (this.pool.ended) return;
    this.#failed('the member has left the group, and joins again', error);
    this.#revoke();
    void this.join();
  }

  /** Gives up all partitions: they belong to other members by now, or soon will. */
  #revoke(): void {
    this.#assignment += 1;
    this.partitions.revoke();
  }

  async #assigned(assignments: GroupAssignment[]): Promise<void> {
    this.#revoke();
    const assignment = this.#assignment;
    const topics = assignments.filter(({ partitions }) => partitions.length > 0);
    while (topics.length > 0 && assignment === this.#assignment && !this.pool.ended) {
      try {
        const found = await this.reader.positions(topics);
        if (assignment !== this.#assignment) return;
        for (const partition of found) this.partitions.add(partition);
        this.changed.notify();
        return;
      } catch (error) {
        this.#failed('committed offsets cannot be read for now', error);
        await this.pool.sleep(AGAIN);
      }
    }
  }

  #failed(what: string, error: unknown): void {
    // Another rebalance has begun before this one ended: the member joins again, and nothing is wrong.
    if (!isError(error, 'REBALANCE_IN_PROGRESS')) this.reader.failed(what, error);
  }
}

/** The number of partitions of each topic that is known. */
function countsOf(metadata: ClusterMetadata | undefined, topics: readonly string[]): Map<string, number> {
  return new Map(
    topics.flatMap((topic): [string, number][] => {
      const count = metadata?.topics.get(topic)?.partitionsCount;
      return count === undefined ? [] : [[topic, count]];
    }),
  );
}
