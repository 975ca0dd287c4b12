import assert from 'node:assert/strict';
import { test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import { repeated } from '../src/core/calls.js';
import { CallFailed, durationOf, milliseconds } from '../src/core/world.js';
import { ClaimRequestSchema, LedgerService } from '../src/gen/idempotency/ledger/v1/ledger_pb.js';
import { FakeWorld, failure, granted } from './world.js';

const { claim } = LedgerService.method;
const request = create(ClaimRequestSchema, { claimId: 'a' });

test('repeats_send_identical_bytes_until_an_answer_decides', async () => {
  const world = new FakeWorld([failure(), failure('OUTCOME_UNKNOWN'), granted()]);
  const { answer } = await repeated(world, claim, request, 10_000, 5_000);
  assert.equal(answer.verdict.case, 'acquired');
  assert.equal(new Set(world.tries.map((attempt) => attempt.request)).size, 1);
  assert.deepEqual(
    world.tries.map((attempt) => attempt.repeat),
    [false, true, true],
  );
});

test('sent_is_the_instant_of_the_try_that_was_answered', async () => {
  const world = new FakeWorld([failure(), granted({}, 300)]);
  const { sent } = await repeated(world, claim, request, 10_000, 5_000);
  assert.equal(sent, 1_050);
  assert.equal(world.now(), 1_350);
});

test('time_to_connect_is_taken_from_the_try_and_not_from_the_lease', async () => {
  const world = new FakeWorld([granted({}, 300)]);
  world.connecting = 2_000;
  const { sent } = await repeated(world, claim, request, 10_000, 5_000);
  assert.equal(sent, 3_000);
  assert.equal(world.tries[0]?.timeout, 3_000);
});

test('pauses_double_up_to_a_second_with_jitter', async () => {
  const world = new FakeWorld([failure()]);
  world.jitter = 0;
  await assert.rejects(repeated(world, claim, request, 3_000, 5_000), CallFailed);
  assert.deepEqual(world.sleeps.slice(0, 7), [25, 50, 100, 200, 400, 500, 500]);
});

test('budget_bounds_repeats_and_the_last_try', async () => {
  const world = new FakeWorld([{ ...failure(), after: 900 }]);
  await assert.rejects(repeated(world, claim, request, 2_000, 5_000), CallFailed);
  assert.ok(world.now() <= 1_000 + 2_000 + 900);
  assert.deepEqual(
    world.tries.map((attempt) => attempt.timeout),
    [2_000, 1_050, 50],
  );
});

test('refusal_for_good_is_not_repeated', async () => {
  const world = new FakeWorld([failure('INVALID_FIELD')]);
  await assert.rejects(repeated(world, claim, request, 10_000, 5_000), CallFailed);
  assert.equal(world.tries.length, 1);
});

test('retry_after_is_the_shortest_wait_and_none_that_exceeds_the_budget', async () => {
  const soon = new FakeWorld([failure('OVERLOADED', { retryAfter: 700 }), granted()]);
  await repeated(soon, claim, request, 10_000, 5_000);
  assert.deepEqual(soon.sleeps, [700]);
  const late = new FakeWorld([failure('OVERLOADED', { retryAfter: 30_000 })]);
  await assert.rejects(repeated(late, claim, request, 10_000, 5_000), CallFailed);
  assert.deepEqual(late.sleeps, []);
});

test('answer_that_cannot_be_decoded_is_an_unknown_outcome', async () => {
  const world = new FakeWorld([{ answer: new Uint8Array([0xff, 0xff]) }, granted()]);
  assert.equal((await repeated(world, claim, request, 10_000, 5_000)).answer.verdict.case, 'acquired');
  assert.equal(world.tries.length, 2);
});

test('stopped_call_is_not_repeated', async () => {
  const stop = new AbortController();
  const world = new FakeWorld([failure()]);
  world.woken = () => stop.abort();
  await assert.rejects(repeated(world, claim, request, 10_000, 5_000, stop.signal), CallFailed);
  assert.equal(world.tries.length, 1);
});

test('durations_keep_fractions_of_a_millisecond', () => {
  for (const ms of [0, 0.25, 50, 1_000, 1_234.5, 86_400_000]) assert.equal(milliseconds(durationOf(ms)), ms);
  assert.equal(durationOf(1_999.9999999).nanos, 999_999_000);
});

test('durations_have_whole_microseconds', () => {
  for (const [given, nanos] of [
    [1_000 / 3, 333_333_000],
    [250.00025, 250_000_000],
    [999.9999, 999_999_000],
    [7.5, 7_500_000],
  ] as const) {
    assert.equal(durationOf(given).nanos, nanos);
  }
});
