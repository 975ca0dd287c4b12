import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import { NoId, namedByCloudEvent } from '../src/brokers/index.js';
import { wasUtf8 } from '../src/brokers/name.js';
import { Pool, checkConsumer } from '../src/brokers/pool.js';
import { Advice, ReleaseResponseSchema } from '../src/gen/idempotency/ledger/v1/ledger_pb.js';
import { Closed, InvalidField, Key, Ledger, LedgerError } from '../src/index.js';
import { ScriptedServer } from './server.js';
import { encoded, granted } from './world.js';

const headers = (given: Record<string, string>) => new Map(Object.entries(given));
const none = new Uint8Array();
const structured = headers({ 'Content-Type': 'application/cloudevents+json; charset=utf-8' });
const body = (text: string) => Buffer.from(text);

test('name_of_a_binary_event_is_its_own', () => {
  for (const prefix of ['ce-', 'ce_', 'cloudEvents:', 'cloudEvents_', 'CE-']) {
    const found = namedByCloudEvent(headers({ [`${prefix}source`]: 'shop', [`${prefix}id`]: '1' }), none);
    assert.deepEqual([found?.key.source, found?.key.id], ['shop', '1'], prefix);
  }
});

test('name_of_a_structured_event_is_its_own', () => {
  const event = { source: 'shop', id: '1', time: '2026-02-03T04:05:06.7Z' };
  const found = namedByCloudEvent(structured, body(JSON.stringify(event)));
  assert.deepEqual([found?.key.source, found?.key.id], ['shop', '1']);
  assert.equal(found?.occurredAt?.toISOString(), '2026-02-03T04:05:06.700Z');
});

test('name_of_a_structured_event_is_not_read_from_headers', () => {
  const other = { ce_source: 'other', ce_id: '2' };
  const both = headers({ 'content-type': 'application/cloudevents+json', ...other });
  assert.equal(namedByCloudEvent(both, body('{"source": "shop", "id": "1"}'))?.key.id, '1');
  assert.throws(() => namedByCloudEvent(both, body('{}')), NoId);
  // In another format the event cannot be read: its headers count.
  const avro = headers({ 'content-type': 'application/cloudevents+avro', ...other });
  assert.equal(namedByCloudEvent(avro, none)?.key.id, '2');
  const batch = headers({ 'content-type': 'application/cloudevents-batch+json' });
  assert.equal(namedByCloudEvent(batch, body('[]')), undefined);
});

test('name_of_what_is_not_an_event_is_undefined', () => {
  assert.equal(
    namedByCloudEvent(headers({ id: '1', 'content-type': 'application/json' }), body('{"id": "1"}')),
    undefined,
  );
});

test('name_of_an_event_without_id_is_refused', () => {
  for (const text of [
    '',
    '[]',
    'null',
    '{}',
    '{"source": "shop", "id": 1}',
    '{"id": "1"}',
    '{"source": "shop", "id": ""}',
  ]) {
    assert.throws(() => namedByCloudEvent(structured, body(text)), NoId, text);
  }
  assert.throws(() => namedByCloudEvent(headers({ 'ce-id': '1' }), none), NoId);
});

test('body_of_an_event_that_is_not_json_is_refused', () => {
  const withData = (data: string) => `{"source": "shop", "id": "1", "data": ${data}}`;
  for (const text of ['\ufeff' + withData('1'), ...['NaN', 'Infinity', '-Infinity'].map(withData)]) {
    assert.throws(() => namedByCloudEvent(structured, body(text)), NoId, text);
  }
  for (const data of ['['.repeat(100_000) + ']'.repeat(100_000), '1'.repeat(5_000)]) {
    assert.equal(namedByCloudEvent(structured, body(withData(data)))?.key.id, '1');
  }
});

test('ids_that_are_not_unicode_never_become_one', () => {
  const bytes = Buffer.concat([body('{"source": "shop", "id": "'), Buffer.of(0xff), body('"}')]);
  assert.throws(() => namedByCloudEvent(structured, bytes), NoId);
  const surrogate = namedByCloudEvent(structured, body('{"source": "shop", "id": "\\ud800"}'));
  assert.ok(surrogate?.key.fault);
  assert.ok(!wasUtf8(Buffer.of(0xff).toString()));
});

test('instant_that_is_not_one_is_left_out', () => {
  const timeOf = (time: string) =>
    namedByCloudEvent(headers({ 'ce-id': '1', 'ce-source': 's', 'ce-time': time }), none);
  assert.equal(timeOf('2026-02-03t04:05:06+01:00')?.occurredAt?.toISOString(), '2026-02-03T03:05:06.000Z');
  for (const text of ['', '2026-02-30T00:00:00Z', '2026-02-03', '2026-02-03T04:05:06', '0000-01-01T00:00:00Z', 'now']) {
    assert.equal(timeOf(text)?.occurredAt, undefined, text);
  }
});

let server: ScriptedServer;
let ledger: Ledger;
let lines: string[];
let stop: AbortController;

beforeEach(async () => {
  server = new ScriptedServer();
  server.answers['Claim'] = [granted()];
  server.answers['Release'] = [encoded(ReleaseResponseSchema, { advice: Advice.RETRY_LATER })];
  lines = [];
  stop = new AbortController();
  ledger = new Ledger({ consumer: 'c', endpoint: await server.start(), log: (line) => lines.push(line) });
});

afterEach(async () => {
  await ledger.close();
  server.stop();
});

const pooled = (concurrency = 1, graceMs = 10_000) =>
  new Pool({ ledger, concurrency, graceMs }, 'queue q', stop.signal);
const named = () => ({ key: Key.of('s', '1') });
const never = () => assert.fail('no handler may begin');

test('options_beyond_their_bounds_are_refused', () => {
  const handler = () => undefined;
  for (const wrong of [
    { concurrency: 0 },
    { concurrency: 1001 },
    { concurrency: 1.5 },
    { graceMs: -1 },
    { named: 1 },
    { handler: 1 },
  ]) {
    assert.throws(() => checkConsumer({ ledger, handler, ...wrong }), InvalidField, JSON.stringify(wrong));
  }
  assert.throws(() => new Pool({ ledger }, 'queue q', {} as AbortSignal), InvalidField);
});

test('slots_are_bounded_until_they_are_released', async () => {
  const pool = pooled(2);
  assert.equal(await pool.acquire(), 2);
  const waiting = pool.acquire();
  pool.release(1);
  assert.equal(await waiting, 1);
  const late = pool.acquire();
  stop.abort();
  assert.equal(await late, 0);
});

test('delivery_without_id_is_dead_lettered_and_reported', async () => {
  const name = () => {
    throw new NoId('no header');
  };
  const verdict = await pooled().process(stop.signal, name, none, never);
  assert.deepEqual([verdict.advice, verdict.reason, verdict.begun], ['DEAD_LETTER', 'NO_ID', true]);
  assert.match(lines.join(), /queue q: .*no header/);
  assert.equal(server.arrived.length, 0);
});

test('error_of_the_program_ends_the_pool', async () => {
  const pool = pooled();
  const wrong = new Error('wrong');
  const name = () => {
    throw wrong;
  };
  assert.ok(!(await pool.process(pool.signal, name, none, never)).begun);
  assert.ok(pool.ended);
  await assert.rejects(pool.wait(), wrong);
});

test('closed_ledger_ends_the_pool', async () => {
  const pool = pooled();
  await ledger.close();
  assert.ok(!(await pool.process(pool.signal, named, none, never)).begun);
  await assert.rejects(pool.wait(), Closed);
});

test('claim_that_arrives_after_the_stop_is_given_back', async () => {
  const pool = pooled();
  const name = () => {
    queueMicrotask(() => stop.abort());
    return named();
  };
  assert.ok(!(await pool.process(pool.signal, name, none, never)).begun);
  assert.deepEqual(
    server.arrived.map(({ method }) => method),
    ['Claim', 'Release'],
  );
  await pool.wait();
});

test('delivery_after_the_stop_sends_nothing', async () => {
  const pool = pooled();
  stop.abort();
  assert.ok(!(await pool.process(pool.signal, named, none, never)).begun);
  assert.equal(server.arrived.length, 0);
});

test('wait_ends_with_the_running_deliveries_or_the_grace', async () => {
  const pool = pooled(2, 50);
  await pool.acquire();
  let done: () => void = () => undefined;
  pool.go(() => new Promise((resolve) => (done = resolve)));
  stop.abort();
  await assert.rejects(pool.wait(), LedgerError);
  done();
  await pool.wait();
});

test('what_a_delivery_throws_ends_the_pool', async () => {
  const pool = pooled();
  const wrong = new Error('wrong');
  await pool.acquire();
  pool.go(() => Promise.reject(wrong));
  await pool.end();
  await assert.rejects(pool.wait(), wrong);
});
