import assert from 'node:assert/strict';
import { test } from 'node:test';
import { durationOf } from '../src/core/world.js';
import { finish } from '../src/core/delivery.js';
import { AnnouncementFailed, CheckpointDropped, ClaimLost, NotProtected } from '../src/errors.js';
import { OnExpiry, RenewRequestSchema, RenewResponseSchema } from '../src/gen/idempotency/ledger/v1/ledger_pb.js';
import { FakeWorld, completed, encoded, failure, holdOf, renewed } from './world.js';

test('lease_is_renewed_at_a_third_until_the_claim_is_lost', async () => {
  const world = new FakeWorld([renewed(3_000), renewed(3_000), failure('LEASE_LOST')]);
  assert.equal(await holdOf(world).renewing(), 'LEASE_LOST');
  assert.deepEqual(world.sleeps, [1_000, 1_000, 1_000]);
  assert.equal(world.request(RenewRequestSchema, 0).token, 7n);
});

for (const reason of ['CLAIM_CLOSED', 'ENTRY_NOT_FOUND', 'TOKEN_FROM_FUTURE']) {
  test(`claim_is_lost_with_${reason}`, async () => {
    assert.equal(await holdOf(new FakeWorld([failure(reason)])).renewing(), reason);
  });
}

test('other_refusals_leave_the_lease_until_its_end', async () => {
  const world = new FakeWorld([failure('CONSUMER_NOT_ALLOWED')]);
  assert.equal(await holdOf(world).renewing(), 'LEASE_OVER');
  assert.ok(world.now() >= 4_000 && world.now() < 4_200, String(world.now()));
  assert.ok(world.tries.length > 2);
});

test('nothing_is_renewed_once_the_lease_reaches_the_hold', async () => {
  const world = new FakeWorld([renewed(3_000)]);
  const hold = holdOf(world, { hold: durationOf(3_000) });
  assert.equal(await hold.renewing(), 'LEASE_OVER');
  assert.equal(world.tries.length, 0);
  assert.equal(world.now(), 4_000);
});

test('hold_of_an_answer_shortens_that_of_the_grant', async () => {
  const world = new FakeWorld([renewed(2_000, 2_000)]);
  const hold = holdOf(world, { hold: durationOf(60_000) });
  assert.equal(await hold.renewing(), 'LEASE_OVER');
  assert.equal(world.tries.length, 1);
  assert.equal(hold.holdUntil, 4_000);
});

test('process_that_stood_still_asks_once', async () => {
  const world = new FakeWorld([renewed(3_000), failure('LEASE_LOST')]);
  let stood = false;
  world.woken = () => {
    if (!stood) world.clock += 10_000;
    stood = true;
  };
  assert.equal(await holdOf(world).renewing(), 'LEASE_LOST');
  assert.equal(world.tries[0]?.timeout, 1_000);
});

test('lease_that_ends_in_time_is_not_asked_for', async () => {
  const world = new FakeWorld([failure()]);
  assert.equal(await holdOf(world).renewing(), 'LEASE_OVER');
  assert.ok(world.now() < 4_200);
});

test('settled_claim_is_not_renewed', async () => {
  const world = new FakeWorld([completed]);
  const hold = holdOf(world);
  await finish(hold, { result: new Uint8Array(), leftOut: false });
  assert.equal(await hold.renewing(), undefined);
  hold.end();
  assert.deepEqual(world.methods(), ['Complete']);
});

test('claim_closed_by_its_own_complete_is_not_lost', async () => {
  const hold = holdOf(new FakeWorld([failure('CLAIM_CLOSED')]));
  hold.completing = true;
  assert.equal(await hold.renewing(), undefined);
});

test('announce_needs_a_policy_that_parks', async () => {
  for (const onExpiry of [OnExpiry.UNSPECIFIED, OnExpiry.RECLAIM, 99 as OnExpiry]) {
    const world = new FakeWorld([renewed(3_000)]);
    const hold = holdOf(world, { onExpiry });
    await assert.rejects(hold.announce(), NotProtected);
    assert.ok(!hold.announced && world.tries.length === 0);
  }
  const world = new FakeWorld([renewed(3_000)]);
  await holdOf(world, { onExpiry: OnExpiry.PARK_IF_STARTED }).announce();
  assert.ok(world.request(RenewRequestSchema, 0).effectStarted);
});

test('unconfirmed_announcement_forbids_the_effect', async () => {
  const hold = holdOf(new FakeWorld([failure()]), { onExpiry: OnExpiry.PARK });
  await assert.rejects(hold.announce(), AnnouncementFailed);
  assert.ok(hold.announced, 'the ledger may know it');
});

test('announce_after_the_lease_is_refused', async () => {
  const world = new FakeWorld([renewed(3_000)]);
  const hold = holdOf(world, { onExpiry: OnExpiry.PARK });
  world.clock += 3_000;
  await assert.rejects(hold.announce(), (error) => error instanceof ClaimLost && error.reason === 'LEASE_OVER');
  assert.equal(world.tries.length, 0);
});

test('dropped_checkpoint_is_an_error', async () => {
  const dropped = encoded(RenewResponseSchema, { lease: durationOf(3_000), checkpointDropped: true });
  await assert.rejects(holdOf(new FakeWorld([dropped])).save(new Uint8Array(9)), CheckpointDropped);
  await assert.rejects(holdOf(new FakeWorld([failure('TOO_LARGE')])).save(new Uint8Array(9)), CheckpointDropped);
  await assert.rejects(holdOf(new FakeWorld([failure('LEASE_LOST')])).save(new Uint8Array(9)), ClaimLost);
});

test('checkpoint_is_sent_and_renews', async () => {
  const world = new FakeWorld([renewed(9_000)]);
  const hold = holdOf(world);
  await hold.save(Buffer.from('half'));
  assert.equal(Buffer.from(world.request(RenewRequestSchema, 0).checkpoint ?? []).toString(), 'half');
  assert.equal(hold.leaseUntil, 10_000);
});
