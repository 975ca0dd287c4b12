import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { test } from 'node:test';
import { type KafkaMessage, NoId, TopicConsumer, named } from '../src/brokers/kafka.js';
import { type Closing, closeClient } from '../src/brokers/kafka-close.js';
import { isError, isLasting, reasonOf } from '../src/brokers/kafka-errors.js';
import { Fetcher, type Wanted } from '../src/brokers/kafka-fetch.js';
import { Group } from '../src/brokers/kafka-group.js';
import { Changed, Partition, Partitions } from '../src/brokers/kafka-partitions.js';
import { Reader, take } from '../src/brokers/kafka-reader.js';
import { Pool } from '../src/brokers/pool.js';
import { InvalidField, Ledger } from '../src/index.js';

const ID = '6ba7b810-9dad-11d1-80b4-00c04fd430c8'; // of the topic

const message = (offset: number, headers: KafkaMessage['headers'] = []): KafkaMessage => ({
  topic: 'orders',
  partition: 0,
  offset: BigInt(offset),
  timestamp: 0n,
  key: Buffer.from('key'),
  value: Buffer.from('{}'),
  headers,
});

test('name_is_that_of_the_event_else_topic_and_header', () => {
  const nameOf = (headers: Record<string, string | Buffer>, last: KafkaMessage['headers'] = []) => {
    const given = Object.entries(headers).map(([name, value]): [string, Buffer] => [name, Buffer.from(value)]);
    const { key } = named('orders', message(1, [...given, ...last]));
    return [key.source, key.id];
  };
  assert.deepEqual(nameOf({ id: '1' }), ['orders', '1']);
  assert.deepEqual(nameOf({ id: '1', ce_id: '2', ce_source: 'shop' }), ['shop', '2']);
  assert.throws(() => nameOf({}), NoId);
  assert.throws(() => nameOf({ id: Buffer.of(0xff) }), NoId);
  assert.throws(() => nameOf({ id: '1' }, [['id', Buffer.of(0xff)]]), NoId);
});

test('nothing_is_committed_past_a_hole', () => {
  const partition = new Partition('orders', ID, 0, 7n, 7n);
  const taken = [7, 8, 10, 11].map((offset) => partition.take(message(offset))); // 9 is not a message.
  for (const [at, done] of [
    [1, 7n],
    [2, 7n],
    [0, 11n],
    [3, 12n],
  ] as const) {
    partition.finish(taken[at] ?? assert.fail());
    assert.equal(partition.done, done);
  }
});

test('held_message_stops_its_partition', async () => {
  const partition = new Partition('orders', ID, 0, 1n, -1n);
  partition.take(message(1));
  partition.take(message(2));
  const first = partition.begin() ?? assert.fail();
  let woken = 0;
  const wake = () => (woken += 1);
  partition.hold(first, 20, wake);
  assert.ok(partition.blocked);
  assert.equal(partition.begin(), undefined);
  await pause(60);
  assert.equal(partition.begin(), first);
  partition.hold(first, 0, wake); // It may be held again.
  await pause(20);
  assert.equal(woken, 2);
  partition.finish(partition.begin() ?? assert.fail());
  assert.ok(!partition.blocked);
  assert.equal(partition.done, 2n);
  assert.equal(partition.begin()?.message.offset, 2n);
});

test('revoked_partition_begins_nothing', async () => {
  const partition = new Partition('orders', ID, 0, 1n, -1n);
  partition.take(message(1));
  const begun = partition.begin() ?? assert.fail();
  partition.take(message(2));
  partition.hold(begun, 1, () => assert.fail('a revoked message is due'));
  partition.revoke();
  await pause(20);
  assert.equal(partition.begin(), undefined);
  assert.ok(partition.gone && partition.stopping.aborted);
});

test('partition_far_ahead_of_its_oldest_message_is_blocked', () => {
  const partition = new Partition('orders', ID, 0, 0n, -1n);
  const all = Array.from({ length: 10_000 }, (_, offset) => partition.take(message(offset)));
  assert.ok(partition.blocked);
  partition.finish(all[0] ?? assert.fail());
  assert.ok(!partition.blocked);
});

test('partition_that_begins_again_replaces_the_former_one', () => {
  const partitions = new Partitions();
  const [first, other, again] = [0, 1, 0].map((number) => new Partition('orders', ID, number, 0n, -1n));
  for (const each of [first, other, again]) partitions.add(each ?? assert.fail());
  assert.deepEqual(partitions.all, [again, other]);
  partitions.begun(again ?? assert.fail());
  assert.deepEqual(partitions.all, [other, again]);
  partitions.revoke();
  assert.deepEqual(partitions.all, []);
  assert.ok(again?.gone && other?.gone && !first?.gone);
});

type Batches = Parameters<typeof take>[1];
const TRANSACTIONAL = 0x10;
const MARKER = 0x30; // transactional, and a control batch

/** A batch of a producer with these offsets; a marker has the type 0 (abort) or 1 (commit) in its key. */
const batch = (producerId: bigint, attributes: number, offsets: number[], type = 0) => ({
  producerId,
  attributes,
  firstOffset: BigInt(offsets[0] ?? 0),
  firstTimestamp: 0n,
  lastOffsetDelta: (offsets.at(-1) ?? 0) - (offsets[0] ?? 0),
  records: offsets.map((offset) => ({
    offsetDelta: offset - (offsets[0] ?? 0),
    timestampDelta: 0n,
    key: attributes === MARKER ? Buffer.of(0, 0, 0, type) : null,
    value: Buffer.from('{}'),
    headers: [],
  })),
});

test('messages_of_aborted_transactions_and_markers_are_left_out', () => {
  const partition = new Partition('orders', ID, 0, 2n, -1n);
  const [aborted, committed] = [7n, 8n];
  take(partition, {
    records: [
      batch(-1n, 0, [1, 2]), // The fetch begins amid it.
      batch(aborted, TRANSACTIONAL, [3]),
      batch(committed, TRANSACTIONAL, [4]),
      batch(aborted, MARKER, [5]),
      batch(committed, MARKER, [6], 1),
      batch(aborted, TRANSACTIONAL, [7]), // Its next transaction.
      batch(aborted, MARKER, [8], 1),
    ],
    abortedTransactions: [{ producerId: aborted, firstOffset: 3n }],
  } as unknown as Batches);
  const begun: bigint[] = [];
  for (let each = partition.begin(); each; each = partition.begin()) {
    begun.push(each.message.offset);
    partition.finish(each);
  }
  assert.deepEqual(begun, [2n, 4n, 7n]);
  assert.equal(partition.done, 9n);
});

/** The fetches of a client of Kafka whose broker has these versions of a fetch, and answers with these partitions. */
async function answered(versions: [number, number], answer: (topicId: string) => unknown) {
  const client = await import('@platformatic/kafka');
  const consumer = new client.Consumer({ clientId: 'c', groupId: 'g', bootstrapBrokers: ['127.0.0.1:1'] });
  type Callback = (error: unknown, found?: unknown) => void;
  const sent: { version: number; topicId: string }[] = [];
  const connection = {
    send: (key: number, version: number, request: () => { buffer: Buffer }, ...rest: unknown[]) => {
      const callback = rest.at(-1) as Callback;
      if (key !== 1) {
        const [minVersion, maxVersion] = versions;
        callback(null, { apiKeys: [{ apiKey: 1, name: 'Fetch', minVersion, maxVersion }] });
        return;
      }
      const named = request().buffer.includes('orders');
      sent.push({ version, topicId: named ? 'orders' : ID });
      callback(null, answer(named ? 'orders' : ID));
    },
  };
  const get = (_: unknown, callback?: Callback) =>
    callback ? callback(null, connection) : Promise.resolve(connection);
  Object.assign(consumer.connections, { get, getFirstAvailable: get });
  const wanted = [{ topic: 'orders', topicId: ID, number: 0, next: 0n }];
  const fetched = await new Fetcher({ ...client }, consumer).fetch({ host: '127.0.0.1', port: 1 }, wanted);
  await consumer.close(true);
  return { fetched, sent };
}

test('committed_message_between_aborted_transactions_is_taken_in_any_order_of_these', async () => {
  const producer = 7n;
  const records = [
    batch(producer, TRANSACTIONAL, [0]),
    batch(producer, MARKER, [1]),
    batch(producer, TRANSACTIONAL, [2]), // The one that is committed.
    batch(producer, MARKER, [3], 1),
    batch(producer, TRANSACTIONAL, [4]),
    batch(producer, MARKER, [5]),
    { ...batch(producer, MARKER, [6]), records: [] }, // Compaction has emptied it.
  ];
  const aborted = [4n, 0n].map((firstOffset) => ({ producerId: producer, firstOffset }));
  for (const abortedTransactions of [aborted, [...aborted].reverse()]) {
    const { fetched } = await answered([4, 17], (topicId) => ({
      responses: [{ topicId, partitions: [{ partitionIndex: 0, errorCode: 0, abortedTransactions, records }] }],
    }));
    const partition = new Partition('orders', ID, 0, 0n, -1n);
    for (const [, found] of fetched.found) take(partition, found);
    assert.equal(partition.begin()?.message.offset, 2n);
    assert.equal(partition.begin(), undefined);
    assert.equal(partition.next, 7n);
  }
});

test('fetch_has_the_newest_version_of_both_and_names_topics_in_old_ones', async () => {
  const answer = (topicId: string) => ({ responses: [{ topicId, partitions: [{ partitionIndex: 0 }] }] });
  for (const [versions, version, topicId] of [
    [[4, 99], 17, ID],
    [[0, 13], 13, ID],
    [[0, 12], 12, 'orders'],
  ] as const) {
    const { fetched, sent } = await answered([...versions], answer);
    assert.deepEqual(sent, [{ version, topicId }]);
    assert.equal(fetched.found.length, 1);
  }
  await assert.rejects(answered([99, 99], answer), /no version of a fetch/);
});

/** A topic whose partitions have these numbers of messages, as a client of Kafka and as its brokers answer it. */
class FakeTopic {
  /** The offsets that were fetched, of each partition. */
  readonly fetched: number[][];

  id = ID;
  errorCode = 0;
  /** The offset of each partition that the group has committed, and those that it was asked to commit. */
  committed: bigint[] = [];
  readonly commits: unknown[] = [];
  readonly memberId = 'member';

  constructor(readonly sizes: number[]) {
    this.fetched = sizes.map(() => []);
  }

  readonly topics = { trackAll: () => undefined };
  /** What was registered for each event. */
  readonly listeners = new Map<string, (payload: unknown) => void>();
  readonly on = (event: string, listener: (payload: unknown) => void): unknown => this.listeners.set(event, listener);
  joins = 0;
  readonly joinGroup = () => Promise.resolve((this.joins += 1));
  /** How often a round of fetches has failed. */
  failed = 0;
  readonly clearMetadata = (): void => void (this.failed += 1);
  /** The broker that leads each partition. */
  leaders: number[] = [];
  /** Runs before a fetch is answered, with the number of its first partition. */
  onFetch: (number: number) => Promise<void> = () => pause(1);

  get currentMetadata() {
    const partitions = this.sizes.map((_, number) => ({ leader: this.leaders[number] ?? 1 }));
    const brokers = new Map([1, 2].map((node) => [node, { host: '127.0.0.1', port: node }]));
    return { brokers, topics: new Map([['orders', { id: this.id, partitions, partitionsCount: partitions.length }]]) };
  }

  readonly metadata = async () => {
    await pause(1);
    return this.currentMetadata;
  };

  readonly listOffsets = () => Promise.resolve(new Map([['orders', this.sizes.map(() => 0n)]]));
  readonly listCommittedOffsets = () => Promise.resolve(new Map([['orders', this.committed]]));
  readonly commit = ({ offsets }: { offsets: { offset: bigint }[] }) => {
    this.commits.push(...offsets.map(({ offset }) => offset));
    return Promise.resolve();
  };

  readonly fetch = async (_: unknown, wanted: readonly Wanted[]) => {
    await this.onFetch(wanted[0]?.number ?? 0);
    return { found: wanted.map((each) => [each, this.#answer(each.number, each.next)]), refused: undefined };
  };

  #answer(partitionIndex: number, fetchOffset: bigint) {
    const from = Number(fetchOffset);
    this.fetched[partitionIndex]?.push(from);
    if (this.errorCode !== 0) return { partitionIndex, errorCode: this.errorCode };
    const rest = (this.sizes[partitionIndex] ?? 0) - from;
    const offsets = Array.from({ length: Math.max(0, rest) }, (_, each) => from + each);
    return { partitionIndex, errorCode: 0, abortedTransactions: [], records: rest > 0 ? [batch(-1n, 0, offsets)] : [] };
  }
}

/** What reads the topic. */
interface Reading {
  readonly partitions: Partitions;
  readonly reader: Reader;
  readonly group: Group;
}

/** Reads the topic into its partitions until `during` has ended. */
async function reading(topic: FakeTopic, during: (reading: Reading) => Promise<void>): Promise<void> {
  const ledger = new Ledger({ consumer: 'c', endpoint: '127.0.0.1:1', log: () => undefined });
  const stop = new AbortController();
  const pool = new Pool({ ledger }, 'topic orders', stop.signal);
  const partitions = new Partitions();
  const [client, fetcher] = [topic, topic] as unknown as ConstructorParameters<typeof Reader>;
  const changed = new Changed();
  const reader = new Reader(client, fetcher, ['orders'], partitions, pool, changed);
  const group = new Group(client, reader, partitions, pool, changed, ['orders']);
  const assignments = [{ topic: 'orders', partitions: [...topic.sizes.keys()] }];
  for (const each of await reader.positions(assignments)) partitions.add(each);
  const read = reader.read();
  try {
    await during({ partitions, reader, group });
  } finally {
    stop.abort();
    partitions.revoke();
    changed.notify();
    await read;
    await ledger.close();
  }
}

/** Waits until the condition holds. */
async function until(condition: () => boolean): Promise<void> {
  for (let waited = 0; !condition(); waited += 5) {
    assert.ok(waited < 5_000, 'the condition does not hold after 5 s');
    await pause(5);
  }
}

test('held_partition_with_many_waiting_messages_does_not_stop_others', async () => {
  const topic = new FakeTopic([3_000, 0]);
  await reading(topic, async ({ partitions }) => {
    const [held, other] = partitions.all;
    assert.ok(held && other);
    await until(() => held.waiting === 3_000);
    const first = held.begin() ?? assert.fail();
    held.hold(first, 60_000, () => undefined);
    topic.sizes[1] = 10;
    await until(() => other.waiting === 10);
    // The messages behind the held one are not in memory meanwhile, and are fetched again after it.
    assert.equal(held.waiting, 0);
    assert.equal(held.done, 0n);
    for (let each = other.begin(); each; each = other.begin()) other.finish(each);
    held.finish(first);
    await until(() => held.waiting === 2_999);
    assert.deepEqual(topic.fetched[0], [0, 1]);
    assert.equal(held.begin()?.message.offset, 1n);
  });
});

test('waiting_messages_are_bounded_over_all_partitions', async () => {
  const topic = new FakeTopic([1_000, 0]);
  await reading(topic, async ({ partitions }) => {
    const [full, other] = partitions.all;
    assert.ok(full && other);
    await until(() => full.waiting === 1_000);
    topic.sizes[1] = 10;
    const before = topic.fetched[1]?.length;
    await pause(600);
    assert.equal(other.waiting, 0);
    assert.equal(topic.fetched[1]?.length, before);
  });
});

test('fetch_that_fails_at_one_broker_waits_for_the_other_brokers', async () => {
  const topic = new FakeTopic([5, 5]);
  topic.leaders = [1, 2];
  topic.onFetch = async (number) => {
    if (number === 1) throw new Error('the broker is gone');
    await pause(50);
  };
  await reading(topic, async ({ partitions }) => {
    await until(() => topic.failed > 0);
    assert.equal(partitions.all[0]?.waiting, 5);
  });
});

test('answer_of_a_fetch_from_another_offset_is_not_taken', async () => {
  const topic = new FakeTopic([5]);
  await reading(topic, async ({ partitions }) => {
    const [partition] = partitions.all;
    assert.ok(partition);
    await until(() => partition.waiting === 5);
    topic.onFetch = () => {
      topic.onFetch = () => pause(1);
      topic.sizes[0] = 10;
      partition.dropWaiting();
      return pause(1);
    };
    await until(() => partition.waiting > 0 && partition.next === 10n);
    assert.equal(partition.begin()?.message.offset, 0n);
  });
});

test('topic_that_is_made_again_is_read_from_its_first_message', async () => {
  const topic = new FakeTopic([5]);
  topic.committed = [3n];
  await reading(topic, async ({ partitions, reader, group }) => {
    const [former] = partitions.all;
    assert.ok(former);
    await until(() => former.waiting === 2);
    former.finish(former.begin() ?? assert.fail());
    // Where the broker does not know the id, the topic may be made again with the next commit.
    topic.errorCode = 100;
    await until(() => former.unknown);
    await group.commit();
    assert.deepEqual(topic.commits, []);
    [topic.id, topic.errorCode, topic.sizes[0]] = ['another id', 0, 6];
    await until(() => former.gone);
    const [again] = partitions.all;
    assert.ok(again);
    await until(() => again.waiting === 6);
    await group.commit();
    assert.deepEqual(topic.commits, [0n]);
    // After a rebalance an offset of the former topic that another member has committed is not used.
    partitions.revoke();
    await pause(10);
    [topic.id, topic.committed] = ['a third id', [5n]];
    const assigned = [{ topic: 'orders', partitions: [0] }];
    const [first] = await reader.positions(assigned);
    assert.deepEqual([first?.next, first?.committed], [0n, -1n]);
    const [second] = await reader.positions(assigned);
    assert.deepEqual([second?.next, second?.committed], [5n, 5n]);
  });
});

test('topic_without_an_id_is_not_made_again', async () => {
  const topic = new FakeTopic([5]);
  topic.id = '00000000-0000-0000-0000-000000000000';
  await reading(topic, async ({ partitions }) => {
    const [partition] = partitions.all;
    assert.ok(partition);
    await until(() => partition.waiting === 5);
    topic.id = ID;
    topic.sizes[0] = 6;
    await until(() => partition.waiting === 6);
    assert.ok(!partition.gone);
  });
});

test('member_that_divides_the_partitions_joins_again_when_partitions_are_added', async () => {
  for (const isLeader of [true, false]) {
    const topic = new FakeTopic([1]);
    await reading(topic, async ({ partitions, group }) => {
      const assignments = [{ topic: 'orders', partitions: [0] }];
      topic.listeners.get('consumer:group:join')?.({ isLeader, assignments });
      await until(() => partitions.all[0]?.waiting === 1);
      await group.divideAgain();
      assert.equal(topic.joins, 0);
      topic.sizes.push(10);
      await group.divideAgain();
      assert.equal(topic.joins, isLeader ? 1 : 0);
      assert.equal(partitions.all.length, isLeader ? 0 : 1);
    });
  }
});

test('errors_of_the_protocol_are_found_in_those_that_they_are_made_of', () => {
  const failed = (apiId: string) => ({ errors: [{ apiId }] });
  assert.ok(isError(failed('REBALANCE_IN_PROGRESS'), 'REBALANCE_IN_PROGRESS'));
  assert.ok(!isLasting(failed('REBALANCE_IN_PROGRESS')));
  assert.ok(isLasting({ cause: failed('GROUP_AUTHORIZATION_FAILED') }));
  assert.equal(reasonOf(failed('NOT_COORDINATOR')), 'NOT_COORDINATOR');
});

test('close_of_a_client_that_hangs_is_bounded', async () => {
  const never = () => new Promise<void>(() => undefined);
  const refused = () => Promise.reject(new Error('no broker answers'));
  for (const close of [never, refused]) {
    const destroyed: string[] = [];
    const opened = ['first'].map((name) => [name, { socket: { destroy: () => destroyed.push(name) } }] as const);
    const connections = { close: never, [Symbol.iterator]: () => opened.values() };
    const client: Closing = {
      close: () => {
        opened.push(['second', { socket: { destroy: () => destroyed.push('second') } }]);
        return close();
      },
      connections,
    };
    const late = pause(5_000, 'late', { ref: false });
    assert.equal(await Promise.race([closeClient(client, 20), late]), undefined);
    assert.deepEqual(destroyed, ['first', 'second']);
  }
});

test('options_are_checked', () => {
  const ledger = new Ledger({ consumer: 'c', endpoint: '127.0.0.1:1' });
  const right = { ledger, kafka: { bootstrapBrokers: ['127.0.0.1:1'] }, topic: 'orders', handler: () => undefined };
  new TopicConsumer(right);
  for (const wrong of [{ topic: '' }, { kafka: {} }, { kafka: undefined }, { retries: '' }, { topics: 'orders' }]) {
    assert.throws(() => new TopicConsumer({ ...right, ...(wrong as object) }), InvalidField);
  }
});
