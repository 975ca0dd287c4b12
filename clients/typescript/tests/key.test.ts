import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { GiveBack, InvalidField, Retry } from '../src/errors.js';
import { Fingerprint, Key } from '../src/key.js';
import { type LedgerOptions, checkOptions, requestOf } from '../src/options.js';

const field = (name: string) => (error: unknown) => error instanceof InvalidField && error.field === name;

test('message_beyond_its_bounds_is_at_fault_itself', () => {
  for (const id of ['', 'x'.repeat(513), 'é'.repeat(257), 'a\nb', 'a\u0085b', '\ud800']) {
    assert.equal(Key.of('shop', id).fault?.field, 'key.id');
  }
  assert.equal(Key.of('x'.repeat(257), 'a').fault?.field, 'key.source');
  assert.equal(Key.of('x'.repeat(256), 'é'.repeat(256)).fault, undefined);
});

test('key_of_a_program_at_fault_throws', () => {
  assert.throws(() => Key.of(1 as unknown as string, 'a'), field('key.source'));
  assert.throws(() => Key.of('a', 'b', 'x'.repeat(65)), field('key.replay_run'));
  assert.throws(() => Key.of('a', 'b', 'a b'), field('key.replay_run'));
  assert.equal(Key.of('a', 'b', '2026-01.x_').replayRun, '2026-01.x_');
});

test('cloud_event_is_named_by_source_and_id', () => {
  const key = Key.fromCloudEvent({ source: 's', id: 'i' });
  assert.deepEqual([key.source, key.id, key.fault], ['s', 'i', undefined]);
  assert.equal(Key.fromCloudEvent({ source: 's', id: 5 }).fault?.field, 'key.id');
});

test('fingerprint_is_of_bytes_alone', () => {
  const body = Buffer.from('{"a": 1}\r\n');
  assert.deepEqual(Buffer.from(Fingerprint.of(body).digest), createHash('sha256').update(body).digest());
  for (const wrong of ['text', {}, 5]) assert.throws(() => Fingerprint.of(wrong as Uint8Array), field('fingerprint'));
  for (const size of [0, 65]) assert.throws(() => new Fingerprint(new Uint8Array(size)), field('fingerprint'));
});

test('options_are_checked_before_anything_is_sent', () => {
  const wrong: [Partial<LedgerOptions>, string][] = [
    [{ consumer: '' }, 'key.consumer'],
    [{ leaseMs: 999 }, 'leaseMs'],
    [{ leaseMs: Number.NaN }, 'leaseMs'],
    [{ owner: 'a\tb' }, 'owner'],
    [{ unexpected: GiveBack }, 'unexpected'],
  ];
  for (const [options, name] of wrong) assert.throws(() => checkOptions({ consumer: 'c', ...options }), field(name));
  const key = Key.of('s', 'i');
  for (const waitMs of [-1, 3_600_001, Number.NaN]) {
    assert.throws(() => requestOf({ consumer: 'c' }, key, { waitMs }), field('waitMs'));
  }
  assert.throws(() => requestOf({ consumer: 'c' }, key, { occurredAt: new Date('x') }), field('occurredAt'));
  const both = { body: Buffer.from('a'), fingerprint: Fingerprint.of(Buffer.from('a')) };
  assert.throws(() => requestOf({ consumer: 'c' }, key, both), field('fingerprint'));
  assert.throws(() => new Retry('', { afterMs: -1 }), field('afterMs'));
  assert.throws(() => new GiveBack('', { afterMs: 31 * 86_400_000 }), field('afterMs'));
});

test('request_has_a_new_claim_id_and_names_who_asks', () => {
  const ask = () => requestOf({ consumer: 'c', leaseMs: 1_500 }, Key.of('s', 'i', 'run'), { waitMs: 250 });
  const request = ask();
  assert.notEqual(request.claimId, ask().claimId);
  assert.match(request.owner, new RegExp(`/${process.pid}$`));
  assert.deepEqual([request.lease?.seconds, request.lease?.nanos, request.wait?.nanos], [1n, 500_000_000, 250_000_000]);
  assert.equal(request.key?.replayRun, 'run');
});

test('budget_beyond_the_brokers_wait_is_warned_of', async () => {
  const warned = new Promise<Error>((resolve) => process.once('warning', resolve));
  checkOptions({ consumer: 'c', handlerBudgetMs: 40_000, ackWaitMs: 30_000 });
  assert.equal((await warned).name, 'IdempotencyLedgerWarning');
});
