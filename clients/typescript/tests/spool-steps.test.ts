import assert from 'node:assert/strict';
import { test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import { begin } from '../src/core/delivery.js';
import { Hold } from '../src/core/hold.js';
import { Doubtful, GiveBack, InvalidField, Park, Retry, Terminal } from '../src/errors.js';
import { Advice as Wire, ClaimRequestSchema, ClaimResponseSchema } from '../src/gen/idempotency/ledger/v1/ledger_pb.js';
import { Key } from '../src/key.js';
import { Advice, outcome } from '../src/outcome.js';
import { SpoolFailed } from '../src/spool.js';
import { AWAY, KEY, Script, never } from './spooled.js';
import { FakeWorld, encoded, failure } from './world.js';

test('only_a_claim_that_was_not_answered_is_away', async () => {
  const refusal = (code: string, reason?: string) => failure(reason, { code });
  const answer = (advice: Wire, name: 'inProgress' | 'parked') =>
    encoded(ClaimResponseSchema, { advice, verdict: { case: name, value: {} } });
  for (const [scripted, away] of [
    [refusal('UNAVAILABLE'), true],
    [refusal('DEADLINE_EXCEEDED'), true],
    [refusal('UNAVAILABLE', 'STORE_UNAVAILABLE'), true],
    [refusal('DEADLINE_EXCEEDED', 'DEADLINE_EXCEEDED'), true],
    [refusal('INTERNAL'), false],
    [refusal('UNKNOWN'), false],
    [refusal('CANCELLED'), false],
    [refusal('FAILED_PRECONDITION', 'CONSUMER_DISABLED'), false],
    [refusal('PERMISSION_DENIED', 'CONSUMER_NOT_ALLOWED'), false],
    [refusal('RESOURCE_EXHAUSTED', 'OVERLOADED'), false],
    [answer(Wire.RETRY_LATER, 'inProgress'), false],
    [answer(Wire.DEAD_LETTER, 'parked'), false],
  ] as const) {
    const request = create(ClaimRequestSchema, { claimId: 'a', key: { consumer: 'c', source: 's', id: 'i' } });
    const delivery = { request, fault: undefined, repeatAnnounced: false, stopping: () => false };
    const found = await begin(new FakeWorld([scripted]), delivery);
    assert.ok(!(found instanceof Hold));
    assert.equal(found.away, away, found.reason);
  }
});

test('beginning_is_synced_before_the_effect', async () => {
  for (const [fails, steps, advice, unknown] of [
    [0, 'begin sync effect end sync', Advice.ACK, false],
    [1, 'begin', Advice.RETRY_LATER, false],
    [2, 'begin sync', Advice.RETRY_LATER, false],
    [4, 'begin sync effect end', Advice.RETRY_LATER, true],
    [5, 'begin sync effect end sync', Advice.RETRY_LATER, true],
  ] as const) {
    const file = new Script();
    file.fails = fails;
    const spool = file.spool();
    const effect = () => {
      file.steps.push('effect');
      return 'paid';
    };
    const found = await spool.process(AWAY, 'payments', KEY, effect);
    assert.equal(file.steps.join(' '), steps);
    assert.deepEqual([found.advice, found.effectUnknown, found.away], [advice, unknown, true]);
    // Where the effect has happened its result is known, whatever the disk says.
    const known = found.result && Buffer.from(found.result).toString();
    assert.equal(known, steps.includes('effect') ? 'paid' : undefined);
    if (fails === 0) continue;
    assert.equal(found.reason, 'SPOOL_FAILED');
    assert.equal(found.delayMs, 1_000);
    assert.ok(found.error instanceof SpoolFailed);
    assert.match(found.detail, /no space left on device.*open another file/);
    // What the system has lost of the file is not known: it is not written any more, though it could be.
    file.fails = 0;
    assert.equal((await spool.process(AWAY, 'payments', KEY, never)).reason, 'SPOOL_FAILED');
    assert.equal(file.steps.join(' '), steps);
  }
});

test('a_short_write_is_a_failure', async () => {
  const file = new Script();
  file.most = 10;
  const found = await file.spool().process(AWAY, 'payments', KEY, never);
  assert.equal(found.reason, 'SPOOL_FAILED');
  assert.match(found.detail, /10 of \d+ bytes were written/);
});

test('an_answer_of_the_ledger_opens_nothing', async () => {
  const file = new Script();
  const spool = file.spool();
  for (const found of [
    outcome(Advice.ACK, { replayed: true }),
    outcome(Advice.RETRY_LATER, { delayMs: 5_000, reason: 'in_progress' }),
    outcome(Advice.DEAD_LETTER, { reason: 'parked' }),
    outcome(Advice.RETRY_LATER, { reason: 'NO_ANSWER (INTERNAL)' }),
  ]) {
    assert.equal(await spool.process(found, 'payments', KEY, never), found);
  }
  assert.equal(await spool.process(AWAY, 'payments', Key.of('shop', '1', 'run'), never), AWAY);
  assert.equal(await spool.process(AWAY, 'payments', Key.of('shop', ''), never), AWAY);
  assert.deepEqual(file.steps, []);
});

test('an_error_says_whether_the_effect_happened', async () => {
  for (const [error, events, advice, delay, unknown] of [
    [new Retry('later', { afterMs: 7_000 }), 'begin none', Advice.RETRY_LATER, 7_000, false],
    [new Retry('now', { afterMs: 1 }), 'begin none', Advice.RETRY_LATER, 50, false],
    [new Terminal('never'), 'begin none', Advice.RETRY_LATER, 1_000, false],
    [new GiveBack(), 'begin none', Advice.RETRY_LATER, 1_000, false],
    [new Doubtful(), 'begin', Advice.RETRY_LATER, 1_000, true],
    [new Park('look'), 'begin', Advice.DEAD_LETTER, 0, true],
    [new TypeError('secret'), 'begin', Advice.DEAD_LETTER, 0, true],
  ] as const) {
    const file = new Script();
    const found = await file.spool().process(AWAY, 'payments', KEY, () => Promise.reject(error));
    assert.equal(file.lines.map((line) => line['event']).join(' '), events);
    assert.deepEqual(
      [found.advice, found.delayMs, found.effectUnknown, found.error, found.away],
      [advice, delay, unknown, error, true],
    );
    assert.ok(found.reason && !found.reason.includes('secret'));
  }
});

test('a_steering_class_thrown_without_new_steers', async () => {
  const file = new Script();
  const thrown: unknown = Retry;
  const found = await file.spool().process(AWAY, 'payments', KEY, () => {
    throw thrown as Error;
  });
  assert.ok(found.error instanceof Retry);
  assert.equal(file.lines[1]?.['event'], 'none');
});

test('a_none_that_cannot_be_written_changes_no_advice', async () => {
  const file = new Script();
  file.fails = 3;
  const found = await file.spool().process(AWAY, 'payments', KEY, () => Promise.reject(new Retry()));
  assert.deepEqual([found.advice, found.effectUnknown], [Advice.RETRY_LATER, false]);
});

test('a_result_beyond_the_bound_is_left_out', async () => {
  for (const [result, stored, dropped] of [
    [Buffer.alloc(16_384), true, false],
    [Buffer.alloc(16_385), false, true],
    [undefined, false, false],
    [7 as unknown as string, false, true],
  ] as const) {
    const file = new Script();
    const found = await file.spool().process(AWAY, 'payments', KEY, () => result);
    assert.deepEqual([found.advice, found.resultDropped], [Advice.ACK, dropped]);
    assert.equal('result_base64' in (file.lines[1] ?? {}), stored);
    assert.ok(JSON.stringify(file.lines[1]).length < 65_536);
  }
});

test('lines_have_separate_instants_while_the_clock_stands_still', async () => {
  const file = new Script();
  const spool = file.spool(() => Date.UTC(2026, 4, 28, 20) * 1_000);
  await Promise.all(Array.from({ length: 100 }, () => spool.process(AWAY, 'payments', KEY, () => undefined)));
  const instants = file.lines.map((line) => line['at'] as string);
  assert.equal(instants[0], '2026-05-28T20:00:00.000000Z');
  assert.deepEqual(instants, [...new Set(instants)].sort());
  assert.equal(instants.length, 200);
  // Two effects never share a row, and each line is synced before the next one is written.
  assert.equal(new Set(file.lines.map((line) => line['row'])).size, 100);
  assert.ok(file.steps.every((step, at) => (step === 'sync') === (at % 2 === 1)));
});

test('close_waits_for_the_line_that_is_being_written', async () => {
  const file = new Script();
  const spool = file.spool();
  const running = spool.process(AWAY, 'payments', KEY, () => spool.close());
  assert.equal((await running).reason, 'SPOOL_FAILED');
  assert.deepEqual(file.steps, ['begin', 'sync', 'close']);
  await assert.rejects(spool.process(AWAY, '', KEY, never), InvalidField);
});
