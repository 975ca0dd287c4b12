import assert from 'node:assert/strict';
import { test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import { type Beginning, begin, endingOf, finish } from '../src/core/delivery.js';
import { Hold } from '../src/core/hold.js';
import { durationOf } from '../src/core/world.js';
import * as errors from '../src/errors.js';
import {
  Advice,
  ClaimRequestSchema,
  ClaimResponseSchema,
  CompleteRequestSchema,
  CompleteResponseSchema,
  FailRequestSchema,
  FailResponseSchema,
  FailureKind,
  ReleaseRequestSchema,
  ReleaseResponseSchema,
} from '../src/gen/idempotency/ledger/v1/ledger_pb.js';
import type { Outcome } from '../src/outcome.js';
import { FakeWorld, completed, encoded, failure, granted, holdOf, renewed } from './world.js';

const { Doubtful, GiveBack, Park, Retry, Terminal } = errors;
const failed = encoded(FailResponseSchema, { advice: Advice.RETRY_LATER, retryAfter: durationOf(200) });
const released = encoded(ReleaseResponseSchema, { advice: Advice.RETRY_LATER });
const done = (text = '') => ({ result: Buffer.from(text), leftOut: false });

function beginning(more: Partial<Beginning> = {}): Beginning {
  const request = create(ClaimRequestSchema, { claimId: 'a', key: { consumer: 'c', source: 's', id: 'i' } });
  return { request, fault: undefined, repeatAnnounced: false, stopping: () => false, ...more };
}

async function refused(world: FakeWorld, more: Partial<Beginning> = {}): Promise<Outcome> {
  const begun = await begin(world, beginning(more));
  assert.ok(!(begun instanceof Hold), 'it was granted');
  return begun;
}

test('grant_begins', async () => {
  const hold = await begin(new FakeWorld([granted()]), beginning());
  assert.ok(hold instanceof Hold);
  assert.equal(hold.leaseUntil, 4_000);
});

test('key_at_fault_is_not_sent', async () => {
  const world = new FakeWorld([granted()]);
  const outcome = await refused(world, { fault: new errors.InvalidField('key.id', 'bound') });
  assert.deepEqual([outcome.advice, outcome.reason], ['DEAD_LETTER', 'INVALID_FIELD']);
  assert.match(outcome.detail, /^key\./);
  assert.equal(world.tries.length, 0);
});

test('grant_that_arrives_while_closing_is_released', async () => {
  const world = new FakeWorld([granted(), released]);
  const outcome = await refused(world, { stopping: () => true });
  assert.deepEqual([outcome.advice, outcome.reason], ['RETRY_LATER', 'CLOSING']);
  assert.deepEqual(world.methods(), ['Claim', 'Release']);
});

test('grant_whose_lease_is_over_is_renewed_or_released', async () => {
  const revived = new FakeWorld([granted({}, 5_000), renewed(3_000)]);
  assert.ok((await begin(revived, beginning())) instanceof Hold);
  const over = new FakeWorld([granted({}, 5_000), failure('LEASE_LOST'), released]);
  assert.equal((await refused(over)).reason, 'LEASE_OVER');
  assert.deepEqual(over.methods(), ['Claim', 'Renew', 'Release']);
});

test('announced_effect_is_parked_unless_repeated', async () => {
  const parked = encoded(FailResponseSchema, { advice: Advice.DEAD_LETTER });
  const world = new FakeWorld([granted({ priorEffectStarted: true }), parked]);
  const outcome = await refused(world);
  assert.deepEqual([outcome.advice, outcome.reason], ['DEAD_LETTER', 'PRIOR_EFFECT_STARTED']);
  assert.ok(outcome.effectUnknown);
  assert.equal(world.request(FailRequestSchema, -1).kind, FailureKind.PARK);
  const repeated = new FakeWorld([granted({ priorEffectStarted: true })]);
  assert.ok((await begin(repeated, beginning({ repeatAnnounced: true }))) instanceof Hold);
});

test('verdicts_are_named_in_the_ledgers_words', async () => {
  const busy = encoded(ClaimResponseSchema, {
    advice: Advice.RETRY_LATER,
    retryAfter: durationOf(700),
    verdict: { case: 'inProgress', value: {} },
  });
  const outcome = await refused(new FakeWorld([busy]));
  assert.deepEqual([outcome.advice, outcome.reason, outcome.delayMs], ['RETRY_LATER', 'in_progress', 700]);
});

test('completed_is_replayed_with_its_result', async () => {
  const verdict = (value: object) =>
    encoded(ClaimResponseSchema, { advice: Advice.ACK, verdict: { case: 'completed', value } });
  const whole = await refused(new FakeWorld([verdict({ result: Buffer.from('r'), attempt: 3 })]));
  assert.deepEqual([whole.advice, whole.replayed, whole.attempt, whole.delayMs], ['ACK', true, 3, 0]);
  assert.equal(Buffer.from(whole.result ?? []).toString(), 'r');
  for (const missing of [{ resultDropped: true }, { resultExpired: true }, { resultOmitted: true }]) {
    assert.equal((await refused(new FakeWorld([verdict(missing)]))).result, undefined);
  }
});

test('unknown_verdict_or_advice_is_retried_later', async () => {
  for (const advice of [Advice.PROCESS, Advice.ACK, 99 as Advice]) {
    const outcome = await refused(new FakeWorld([encoded(ClaimResponseSchema, { advice })]));
    assert.deepEqual([outcome.advice, outcome.reason, outcome.delayMs], ['RETRY_LATER', 'UNKNOWN_VERDICT', 1_000]);
  }
  const acquired = encoded(ClaimResponseSchema, { advice: 99 as Advice, verdict: { case: 'acquired', value: {} } });
  assert.equal((await refused(new FakeWorld([acquired]))).advice, 'RETRY_LATER');
});

test('errors_are_followed_by_their_advice', async () => {
  const known = await refused(new FakeWorld([failure('CLAIM_CLOSED', { advice: 'ACK' })]));
  assert.deepEqual([known.advice, known.reason, known.delayMs, known.detail], ['ACK', 'CLAIM_CLOSED', 0, 'text']);
  const newer = await refused(new FakeWorld([failure('NEWER', { advice: 'PROCESS' })]));
  assert.equal(newer.advice, 'RETRY_LATER');
  const hop = await refused(new FakeWorld([failure(undefined, { advice: 'ACK', code: 'INTERNAL' })]));
  assert.deepEqual([hop.advice, hop.reason], ['RETRY_LATER', 'NO_ANSWER (INTERNAL)']);
});

test('result_is_completed', async () => {
  const world = new FakeWorld([completed]);
  const outcome = await finish(holdOf(world, { effectUnknown: true }), done('r'));
  assert.deepEqual([outcome.advice, outcome.attempt, outcome.effectUnknown], ['ACK', 2, true]);
  const request = world.request(CompleteRequestSchema, 0);
  assert.deepEqual([request.token, request.eventType, request.key?.id], [7n, 'e', 'i']);
});

test('too_large_a_result_is_left_out_once', async () => {
  const dropped = encoded(CompleteResponseSchema, { advice: Advice.ACK, resultDropped: true });
  const world = new FakeWorld([failure('TOO_LARGE'), dropped]);
  const outcome = await finish(holdOf(world), done('r'));
  assert.ok(outcome.resultDropped && outcome.advice === 'ACK');
  const second = world.request(CompleteRequestSchema, 1);
  assert.ok(second.resultLeftOut && second.result.length === 0);
  const again = new FakeWorld([failure('TOO_LARGE', { advice: 'DEAD_LETTER' })]);
  assert.equal((await finish(holdOf(again), done('r'))).reason, 'TOO_LARGE');
  assert.equal(again.tries.length, 2);
});

test('steering_errors_fail_by_their_kind', async () => {
  const kinds = [
    [new Retry('why', { afterMs: 5_000 }), FailureKind.RETRYABLE, 'why'],
    [new Terminal(), FailureKind.TERMINAL, 'Terminal'],
    [new Park('p'.repeat(3_000)), FailureKind.PARK, 'p'.repeat(2_000)],
    [new (class Declined extends Terminal {})(), FailureKind.TERMINAL, 'Declined'],
    [new TypeError('secret'), FailureKind.PARK, 'TypeError'],
    ['secret', FailureKind.PARK, 'string'],
    [Object.assign(new Error('secret'), { name: 'card 4111' }), FailureKind.PARK, 'Error'],
  ] as const;
  for (const [error, kind, text] of kinds) {
    const world = new FakeWorld([failed]);
    const outcome = await finish(holdOf(world), { error });
    const request = world.request(FailRequestSchema, 0);
    assert.deepEqual([request.kind, request.error], [kind, text]);
    assert.equal(outcome.error, error);
    assert.equal(outcome.delayMs, 200);
  }
});

test('steering_class_that_is_thrown_without_new_steers', async () => {
  class OutOfStock extends Terminal {}
  for (const [thrown, kind, reason] of [
    [Retry, FailureKind.RETRYABLE, 'Retry'],
    [Terminal, FailureKind.TERMINAL, 'Terminal'],
    [Park, FailureKind.PARK, 'Park'],
    [OutOfStock, FailureKind.TERMINAL, 'OutOfStock'],
  ] as const) {
    const world = new FakeWorld([failed]);
    const outcome = await finish(holdOf(world), { error: thrown }, Doubtful);
    const request = world.request(FailRequestSchema, 0);
    assert.deepEqual([request.kind, request.error, outcome.reason], [kind, reason, reason]);
    assert.ok(outcome.error instanceof thrown);
  }
  const doubtful = new FakeWorld([failed]);
  assert.ok((await finish(holdOf(doubtful), { error: Doubtful })).effectUnknown);
  assert.equal(doubtful.tries.length, 0);
  const givenBack = new FakeWorld([released]);
  await finish(holdOf(givenBack), { error: GiveBack });
  assert.deepEqual(givenBack.methods(), ['Release']);
});

test('other_functions_that_are_thrown_are_unexpected_errors', async () => {
  class OfOrder extends Terminal {
    constructor(order: { id: string }) {
      super(order.id);
    }
  }
  for (const thrown of [RangeError, OfOrder, () => undefined]) {
    const world = new FakeWorld([failed]);
    const outcome = await finish(holdOf(world), { error: thrown });
    const request = world.request(FailRequestSchema, 0);
    assert.deepEqual([request.kind, request.error], [FailureKind.PARK, 'function']);
    assert.equal(outcome.error, thrown);
  }
});

test('unexpected_errors_mean_what_the_application_says', async () => {
  const retried = new FakeWorld([failed]);
  await finish(holdOf(retried), { error: new TypeError() }, Retry);
  assert.equal(retried.request(FailRequestSchema, 0).kind, FailureKind.RETRYABLE);
  const doubted = new FakeWorld([failed]);
  assert.equal((await finish(holdOf(doubted), { error: new TypeError() }, Doubtful)).reason, 'TypeError');
  assert.equal(doubted.tries.length, 0);
});

test('give_back_releases', async () => {
  const world = new FakeWorld([released]);
  const error = new GiveBack(undefined, { afterMs: 300, unpinFingerprint: true });
  const outcome = await finish(holdOf(world), { error });
  const request = world.request(ReleaseRequestSchema, 0);
  assert.deepEqual([request.unpinFingerprint, request.delay?.nanos, outcome.delayMs], [true, 300_000_000, 300]);
});

test('unprotected_announcement_releases_with_a_delay', async () => {
  const world = new FakeWorld([released]);
  const outcome = await finish(holdOf(world), { error: new errors.NotProtected('RECLAIM') });
  assert.deepEqual([outcome.reason, outcome.delayMs], ['NOT_PROTECTED', 5_000]);
  assert.deepEqual(world.methods(), ['Release']);
});

test('failed_announcement_is_retryable', async () => {
  const world = new FakeWorld([failed]);
  await finish(holdOf(world), { error: new errors.AnnouncementFailed('no answer') });
  assert.equal(world.request(FailRequestSchema, 0).kind, FailureKind.RETRYABLE);
});

test('doubt_and_lost_claims_settle_nothing', async () => {
  const world = new FakeWorld([failed]);
  const doubt = await finish(holdOf(world), { error: new Doubtful() });
  assert.deepEqual([doubt.advice, doubt.reason, doubt.effectUnknown], ['RETRY_LATER', 'DOUBTFUL', true]);
  const hold = holdOf(world);
  hold.lost = 'LEASE_LOST';
  assert.equal((await finish(hold, { error: new TypeError() })).reason, 'LEASE_LOST');
  assert.equal((await finish(holdOf(world), { error: new errors.ClaimLost('NO_ANSWER') })).reason, 'INTERRUPTED');
  assert.equal(world.tries.length, 0);
});

test('nothing_follows_a_complete', async () => {
  const world = new FakeWorld([completed]);
  const hold = holdOf(world);
  const first = finish(hold, done('r'));
  const second = await finish(hold, { error: new TypeError() });
  assert.equal(second.advice, 'ACK');
  assert.ok(second.error instanceof TypeError);
  assert.equal((await first).error, undefined);
  assert.deepEqual(world.methods(), ['Complete']);
});

test('what_cannot_be_a_result_is_left_out', () => {
  for (const result of [1, {}, [], Symbol('s'), '\ud800']) {
    assert.deepEqual(endingOf(result), { result: new Uint8Array(), leftOut: true });
  }
  for (const result of [undefined, null])
    assert.deepEqual(endingOf(result), { result: new Uint8Array(), leftOut: false });
  assert.deepEqual(endingOf('é'), done('é'));
});
