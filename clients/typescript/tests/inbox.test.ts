import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import type { Message as Delivered, SQSClient } from '@aws-sdk/client-sqs';
import { create, fromBinary } from '@bufbuild/protobuf';
import { STORE, SqsConsumer } from '../src/brokers/sqs.js';
import { admitted } from '../src/core/delivery.js';
import { store, take } from '../src/core/inbox.js';
import { type Item, WorkQueue } from '../src/core/queue.js';
import { durationOf } from '../src/core/world.js';
import {
  Advice,
  ClaimNextRequestSchema,
  ClaimNextResponseSchema,
  ReleaseResponseSchema,
  StoreRequestSchema,
  StoreResponseSchema,
} from '../src/gen/idempotency/ledger/v1/ledger_pb.js';
import type { StoreResponse } from '../src/gen/idempotency/ledger/v1/ledger_pb.js';
import { Closed, Fingerprint, InvalidField, Key, Ledger, type Message, type StoredMessage } from '../src/index.js';
import { type Client, Worker } from '../src/worker.js';
import { ScriptedServer } from './server.js';
import { FakeWorld, completed, encoded, failure, holdOf, renewed } from './world.js';

const key = Key.of('shop', '1');
let server: ScriptedServer;
let ledger: Ledger;
let log: (line: string) => void;
const methods = () => server.arrived.map((call) => call.method);

beforeEach(async () => {
  server = new ScriptedServer();
  server.answers['Complete'] = [completed];
  server.answers['Release'] = [encoded(ReleaseResponseSchema, { advice: Advice.RETRY_LATER })];
  log = () => undefined;
  ledger = new Ledger({ consumer: 'c', endpoint: await server.start(), log: (line) => log(line) });
});

afterEach(async () => {
  await ledger.close();
  server.stop();
});

test('message_beyond_a_bound_is_dead_lettered_and_not_sent', async () => {
  const long = 'x'.repeat(257);
  const beyond: [string, Partial<Message>][] = [
    ['message.payload', { payload: new Uint8Array(256 * 1024 + 1) }],
    ['message.topic', { topic: long }],
    ['message.topic', { topic: '\ud800' }],
    ['message.message_key', { messageKey: new Uint8Array(513) }],
    ['message.event_version', { eventVersion: long }],
    ['message.content_type', { contentType: long }],
    ['message.headers.name', { headers: [['', new Uint8Array()]] }],
    ['message.headers', { headers: [['h', new Uint8Array(16 * 1024)]] }],
    ['message.headers', { headers: Array.from({ length: 65 }, () => ['h', new Uint8Array()] as const) }],
  ];
  for (const [field, fields] of beyond) {
    const { advice, error } = await ledger.store(key, { payload: new Uint8Array(), ...fields });
    assert.equal(advice, 'DEAD_LETTER');
    assert.ok(error instanceof InvalidField && error.field === field, `${field}: ${String(error)}`);
  }
  assert.deepEqual(methods(), []);
});

test('message_of_wrong_types_is_refused', async () => {
  const wrong: unknown[] = [
    { payload: 'text' },
    { payload: new Uint8Array(), topic: 1 },
    { payload: new Uint8Array(), offset: 1 },
    { payload: new Uint8Array(), partition: 0.5 },
    { payload: new Uint8Array(), headers: [['h', 'text']] },
    { body: new Uint8Array() },
  ];
  for (const message of wrong) await assert.rejects(ledger.store(key, message as Message), InvalidField);
  const payload = new Uint8Array();
  await assert.rejects(ledger.store(Key.of('s', 'i', 'run'), { payload }), InvalidField);
  assert.deepEqual(methods(), []);
});

test('verdict_of_store_becomes_an_outcome', async () => {
  const verdicts: [StoreResponse['verdict']['case'], Advice, string, string | undefined, boolean][] = [
    ['stored', Advice.ACK, 'ACK', undefined, false],
    ['alreadyStored', Advice.ACK, 'ACK', 'already_stored', true],
    ['completed', Advice.ACK, 'ACK', 'completed', true],
    ['failed', Advice.DEAD_LETTER, 'DEAD_LETTER', 'failed', false],
    ['outsideWindow', Advice.DEAD_LETTER, 'DEAD_LETTER', 'outside_window', false],
    // Rule 8: what this version does not know.
    [undefined, Advice.ACK, 'RETRY_LATER', 'UNKNOWN_VERDICT', false],
    ['stored', 99 as Advice, 'RETRY_LATER', 'stored', false],
  ];
  for (const [name, given, advice, reason, replayed] of verdicts) {
    const verdict = (name ? { case: name, value: {} } : { case: undefined }) as StoreResponse['verdict'];
    const world = new FakeWorld([encoded(StoreResponseSchema, { advice: given, verdict })]);
    const outcome = await store(world, create(StoreRequestSchema), undefined);
    assert.deepEqual([outcome.advice, outcome.reason, outcome.replayed], [advice, reason, replayed]);
    assert.equal(outcome.delayMs > 0, advice === 'RETRY_LATER');
  }
  const full = new FakeWorld([failure('BACKLOG_FULL', { retryAfter: 60_000, code: 'RESOURCE_EXHAUSTED' })]);
  const outcome = await store(full, create(StoreRequestSchema), undefined);
  assert.deepEqual([outcome.advice, outcome.reason, outcome.delayMs], ['RETRY_LATER', 'BACKLOG_FULL', 60_000]);
});

test('lost_answer_of_claim_next_is_asked_for_again', async () => {
  const request = create(ClaimNextRequestSchema, { claimId: 'one', max: 1, wait: durationOf(5_000) });
  const lost = new FakeWorld([failure()]);
  assert.equal((await take(lost, request)).again, true);
  assert.equal((await take(new FakeWorld([failure('CLAIM_CLOSED')]), request)).again, false);
  assert.ok(lost.tries.every((each) => Buffer.compare(each.request, lost.tries[0]?.request ?? each.request) === 0));
});

const handed = (id: string, more = {}) => ({
  key: { consumer: 'c', source: 'shop', id },
  message: { payload: Buffer.from(id), headers: [{ name: 'h', value: Buffer.from('v') }], offset: 9n },
  acquired: { token: 7n, attempt: 1, lease: durationOf(30_000), ...more },
});

test('handout_after_a_wait_beyond_its_lease_is_renewed_by_its_handler', async () => {
  const late = { lease: durationOf(2_000) };
  const answer = encoded(ClaimNextResponseSchema, { messages: [handed('1', late)] }, 3_000);
  const world = new FakeWorld([answer, renewed(2_000)]);
  const { messages } = await take(world, create(ClaimNextRequestSchema));
  // No message waits for the Renew of another one before its handler may begin.
  assert.deepEqual(world.methods(), ['ClaimNext']);
  const hold = messages[0]?.hold;
  assert.ok(hold && hold.lost === undefined && hold.over() === 'LEASE_OVER');
  assert.equal(await admitted(hold, () => false, false), hold);
  assert.deepEqual(world.methods(), ['ClaimNext', 'Renew']);
});

function items(ids: string[], more = {}): Item[] {
  return ids.map((id) => {
    const hold = holdOf(new FakeWorld([]), { attempt: 1, lease: durationOf(30_000), ...more });
    const message = { key: Key.of('shop', id) } as StoredMessage;
    return { hold, message, lost: new AbortController(), renewal: Promise.resolve() };
  });
}

test('room_is_sized_by_lease_and_handler_time', () => {
  for (const [took, most] of [
    [undefined, 4],
    [1, 40],
    [5_000, 12],
    [15_000, 4],
    [60_000, 4],
  ]) {
    const queue = new WorkQueue(4, 30_000);
    if (took !== undefined) {
      queue.add(items(['1']));
      queue.ended(queue.next() as Item, took);
    }
    assert.equal(queue.room(), most);
  }
});

test('next_runs_no_message_twice_and_a_suspect_alone', () => {
  const queue = new WorkQueue(3, 30_000);
  const next = () => queue.next()?.message.key.id;
  queue.add(items(['1', '1', '2']));
  const first = queue.next() as Item;
  const second = queue.next() as Item;
  assert.deepEqual([first.message.key.id, second.message.key.id, next()], ['1', '2', undefined]);
  queue.ended(first, 1);
  queue.add(items(['3'], { attempt: 3, effectUnknown: true }));
  const again = queue.next() as Item;
  assert.deepEqual([again.message.key.id, next(), queue.room()], ['1', undefined, 0]);
  queue.ended(second, 1);
  queue.ended(again, 1);
  const suspect = queue.next() as Item;
  queue.add(items(['4', '5']));
  assert.deepEqual([suspect.message.key.id, next(), queue.room()], ['3', undefined, 0]);
  queue.ended(suspect, 1);
  assert.equal(next(), '4');
  assert.equal(queue.drain().length, 1);
});

test('suspect_that_is_lost_blocks_others_only_while_it_runs', () => {
  const suspect = { attempt: 3, effectUnknown: true };
  const queue = new WorkQueue(3, 30_000);
  queue.add(items(['1']));
  const first = queue.next() as Item;
  const [waiting] = items(['2'], suspect) as [Item];
  queue.add([waiting]);
  queue.add(items(['3']));
  assert.deepEqual([queue.next(), queue.room()], [undefined, 0]);
  waiting.hold.lost = 'LEASE_LOST';
  assert.deepEqual([queue.next(), queue.next()?.message.key.id], [waiting, '3']);
  queue.ended(waiting, 1);
  assert.ok(queue.room() > 0);
  const [running] = items(['4'], suspect) as [Item];
  const alone = new WorkQueue(3, 30_000);
  alone.add([running]);
  alone.next();
  // Its handler, which may kill the process, still runs.
  running.hold.lost = 'LEASE_LOST';
  alone.add([first]);
  assert.deepEqual([alone.next(), alone.room()], [undefined, 0]);
});

test('work_runs_what_it_is_handed_and_releases_what_waits', async () => {
  server.answers['ClaimNext'] = [
    encoded(ClaimNextResponseSchema, { messages: [handed('1'), handed('2')] }),
    encoded(ClaimNextResponseSchema, { retryAfter: durationOf(50) }),
  ];
  const stop = new AbortController();
  const seen: StoredMessage[] = [];
  const ended = await ledger.work(
    async (_claim, message) => {
      seen.push(message);
      stop.abort();
      await new Promise((resolve) => setTimeout(resolve, 20));
    },
    { signal: stop.signal },
  );
  assert.equal(ended, true);
  assert.deepEqual(
    seen.map((message) => [message.key.id, message.offset, message.headers.length]),
    [['1', 9n, 1]],
  );
  assert.deepEqual(
    methods()
      .filter((name) => name !== 'ClaimNext')
      .sort(),
    ['Complete', 'Release'],
  );
  await ledger.close();
  await assert.rejects(
    ledger.work(() => undefined),
    Closed,
  );
  await assert.rejects(ledger.store(key, { payload: new Uint8Array() }), Closed);
});

test('work_whose_log_throws_drains_first', async () => {
  server.answers['ClaimNext'] = [
    // Of the same key, so that the second one waits while ClaimNext is called again.
    encoded(ClaimNextResponseSchema, { messages: [handed('1'), handed('1')] }),
    failure('CONSUMER_NOT_ALLOWED', { code: 'PERMISSION_DENIED' }),
  ];
  log = () => {
    throw new Error('of the log');
  };
  let ended = 0;
  const handler = async () => {
    await new Promise((resolve) => setTimeout(resolve, 100));
    ended += 1;
  };
  await assert.rejects(ledger.work(handler, { concurrency: 4 }), /of the log/);
  assert.equal(ended, 1);
  assert.deepEqual(methods().slice(-2), ['Release', 'Complete']);
});

/** A worker of this world, whose messages are renewed and processed by `client`. */
function workerOf(world: FakeWorld, concurrency: number, client: Pick<Client, 'kept' | 'handed'>): Worker {
  const options = { consumer: 'c', endpoint: 'h:1' };
  return new Worker({ world, options, report: () => undefined, ...client }, () => () => undefined, concurrency, 1_000);
}

test('loss_of_a_suspect_that_waits_wakes_the_worker', async () => {
  const handouts = [handed('1'), handed('2', { attempt: 3, effectUnknown: true })];
  const world = new FakeWorld(handouts.map((each) => encoded(ClaimNextResponseSchema, { messages: [each] })));
  let end: () => void = () => undefined;
  const begun: string[] = [];
  const worker = workerOf(world, 2, {
    kept: (hold, lost) => {
      if (hold.granted.effectUnknown) {
        setImmediate(() => {
          hold.lost = 'LEASE_LOST';
          lost.abort();
        });
      }
      return Promise.resolve();
    },
    handed: ({ message }) => {
      begun.push(message.key.id);
      if (message.key.id === '1') return new Promise<void>((resolve) => (end = resolve));
      worker.stop();
      end();
      return Promise.resolve();
    },
  });
  await worker.run();
  assert.deepEqual(begun, ['1', '2']);
});

test('release_that_throws_keeps_no_other_message_from_its_release', async () => {
  const messages = ['1', '2', '3'].map((id) => handed(id));
  const world = new FakeWorld([encoded(ClaimNextResponseSchema, { messages })]);
  const send = world.send.bind(world);
  let released = 0;
  world.send = async (attempt) => {
    if (attempt.method.name !== 'Release') return send(attempt);
    released += 1;
    if (released === 1) throw new Error('of the first release');
    await new Promise((resolve) => setTimeout(resolve, 20));
    return encoded(ReleaseResponseSchema, { advice: Advice.RETRY_LATER }).answer;
  };
  let ended = 0;
  const worker = workerOf(world, 1, {
    kept: (hold) => {
      hold.end = () => void (ended += 1);
      return Promise.resolve();
    },
    handed: () => {
      worker.stop();
      return new Promise((resolve) => setTimeout(resolve, 5));
    },
  });
  await assert.rejects(worker.run(), /of the first release/);
  assert.equal(ended, 2);
});

test('consumer_with_STORE_stores_what_was_delivered', async () => {
  const stored = { case: 'stored', value: {} } as const;
  server.answers['Store'] = [encoded(StoreResponseSchema, { advice: Advice.ACK, verdict: stored })];
  const id = { DataType: 'String', StringValue: '1' };
  const left: Delivered[] = [{ Body: 'body', ReceiptHandle: 'r', MessageAttributes: { id } }];
  const stop = new AbortController();
  const asked: string[] = [];
  const client = {
    send({ constructor: { name } }: object) {
      asked.push(name);
      if (name !== 'ReceiveMessageCommand') return Promise.resolve({});
      const message = left.shift();
      if (!message) stop.abort();
      return Promise.resolve({ Messages: message && [message] });
    },
  } as unknown as SQSClient;
  await new SqsConsumer({ ledger, client, queue: 'https://sqs/1/orders', handler: STORE }).run(stop.signal);
  assert.ok(asked.includes('DeleteMessageCommand'));
  const request = fromBinary(StoreRequestSchema, server.arrived[0]?.request ?? new Uint8Array());
  assert.deepEqual([request.key?.source, request.key?.id, request.message?.topic], ['orders', '1', 'orders']);
  assert.equal(Buffer.from(request.message?.payload ?? []).toString(), 'body');
  assert.deepEqual(new Uint8Array(request.fingerprint), new Uint8Array(Fingerprint.of(Buffer.from('body')).digest));
});
