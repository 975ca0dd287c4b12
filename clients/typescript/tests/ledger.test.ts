import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import {
  Closed,
  type DeliveryOptions,
  type Handler,
  InvalidField,
  Key,
  Ledger,
  NotGranted,
  Retry,
  Shutdown,
  type ShutdownOptions,
  makeIdempotent,
} from '../src/index.js';
import { type HttpSettings, fetchIdempotency } from '../src/http/index.js';
import {
  Advice,
  ClaimResponseSchema,
  FailRequestSchema,
  FailResponseSchema,
} from '../src/gen/idempotency/ledger/v1/ledger_pb.js';
import { fromBinary } from '@bufbuild/protobuf';
import { completed, encoded, failure, granted } from './world.js';
import { ScriptedServer } from './server.js';

let server: ScriptedServer;
let ledger: Ledger;
let lines: string[];
const key = Key.of('shop', 'one');
const methods = () => server.arrived.map((call) => call.method);

beforeEach(async () => {
  server = new ScriptedServer();
  server.answers['Claim'] = [granted()];
  server.answers['Complete'] = [completed];
  server.answers['Fail'] = [encoded(FailResponseSchema, { advice: Advice.DEAD_LETTER })];
  lines = [];
  ledger = new Ledger({ consumer: 'c', endpoint: await server.start(), log: (line) => lines.push(line) });
});

afterEach(async () => {
  await ledger.close();
  server.stop();
});

test('process_claims_runs_the_handler_and_completes', async () => {
  const outcome = await ledger.process(key, (claim, signal) => {
    assert.deepEqual([claim.token, claim.attempt, claim.idempotencyKey, signal.aborted], [7n, 1, 'k', false]);
    assert.throws(() => claim.outcome, NotGranted);
    return 'paid';
  });
  assert.deepEqual([outcome.advice, outcome.delayMs], ['ACK', 0]);
  assert.equal(Buffer.from(outcome.result ?? []).toString(), 'paid');
  assert.deepEqual(methods(), ['Claim', 'Complete']);
  assert.ok(server.arrived.every((call) => call.deadline > 1_000 && call.deadline <= 5_000));
});

test('wait_extends_the_deadline', async () => {
  await ledger.process(key, () => undefined, { waitMs: 3_000 });
  const deadline = server.arrived[0]?.deadline ?? 0;
  assert.ok(deadline > 7_000 && deadline <= 8_000, String(deadline));
});

test('await_using_settles_a_block', async () => {
  let kept;
  {
    await using claim = await ledger.claim(key);
    await claim.complete('r');
    kept = claim;
  }
  assert.equal(kept.outcome.advice, 'ACK');
  assert.deepEqual(methods(), ['Claim', 'Complete']);
});

test('block_that_settles_nothing_is_parked', async () => {
  {
    await using claim = await ledger.claim(key);
    assert.ok(claim.granted);
  }
  const fail = server.arrived.find((call) => call.method === 'Fail');
  assert.equal(fromBinary(FailRequestSchema, fail?.request ?? new Uint8Array()).error, 'NotSettled');
});

test('block_that_throws_after_it_failed_the_claim_settles_once', async () => {
  const block = async () => {
    await using claim = await ledger.claim(key);
    await claim.fail(new Retry('later'));
    throw new RangeError('block');
  };
  await assert.rejects(block(), RangeError);
  assert.deepEqual(methods(), ['Claim', 'Fail']);
});

test('close_refuses_new_deliveries_and_waits', async () => {
  let go: () => void = () => undefined;
  const started = new Promise<void>((begun) => {
    const running = ledger.process(key, async () => {
      begun();
      await new Promise<void>((resolve) => (go = resolve));
    });
    void running;
  });
  await started;
  assert.equal(await ledger.close(1), false);
  await assert.rejects(
    ledger.process(key, () => undefined),
    Closed,
  );
  const closed = ledger.close();
  go();
  assert.equal(await closed, true);
  assert.deepEqual(methods(), ['Claim', 'Complete']);
});

test('aborted_caller_leaves_the_effect_to_end', async () => {
  const caller = new AbortController();
  let go: () => void = () => undefined;
  const gone = ledger.process(
    key,
    async (_claim, signal) => {
      caller.abort(new RangeError('gone'));
      await new Promise<void>((resolve) => (go = resolve));
      assert.ok(!signal.aborted);
    },
    { signal: caller.signal },
  );
  await assert.rejects(gone, RangeError);
  const closed = ledger.close();
  go();
  assert.equal(await closed, true);
  assert.deepEqual(methods(), ['Claim', 'Complete']);
});

test('aborted_before_it_began_sends_nothing', async () => {
  await assert.rejects(
    ledger.process(key, () => undefined, { signal: AbortSignal.abort(new RangeError()) }),
    RangeError,
  );
  assert.deepEqual(methods(), []);
});

test('errors_of_handlers_are_logged_by_their_names', async () => {
  const outcome = await ledger.process(key, () => {
    throw new TypeError('card 4111');
  });
  assert.ok(outcome.error instanceof TypeError);
  assert.deepEqual(lines, ['idempotency-ledger: c: TypeError was thrown (see outcome.error): DEAD_LETTER']);
});

test('what_is_no_key_or_no_handler_is_refused_before_the_claim', async () => {
  const text = 'shop/1' as unknown as Key;
  await assert.rejects(
    ledger.process(text, () => 'never'),
    /key: must be a Key, not string: Key\.of/,
  );
  await assert.rejects(ledger.claim(text), /key: must be a Key/);
  await assert.rejects(ledger.process(key, undefined as unknown as Handler), /handler: must be a function/);
  assert.deepEqual(methods(), []);
});

test('unknown_option_is_refused_by_its_name', async () => {
  const at = (field: string, taker: string) => (error: unknown) =>
    error instanceof InvalidField &&
    error.field === field &&
    error.bound.startsWith(`is not an option of ${taker}; these are: `);
  for (const name of ['grace', 'lease', 'waitMs', 'constructor']) {
    assert.throws(() => new Ledger({ consumer: 'c', [name]: 5 }), at(name, 'new Ledger'));
  }
  for (const name of ['wait', 'leaseMs', 'graceMs', 'toString']) {
    const options = { [name]: 5 };
    await assert.rejects(
      ledger.process(key, () => 'never', options),
      at(name, 'process and claim'),
    );
    await assert.rejects(ledger.claim(key, options), at(name, 'process and claim'));
  }
  const wait = { ledger, key: () => key, wait: 5 };
  assert.throws(() => makeIdempotent(() => 'never', wait), at('wait', 'makeIdempotent'));
  const grace = { grace: 5 } as ShutdownOptions;
  assert.throws(() => new Shutdown(grace), at('grace', 'new Shutdown'));
  const tenent = { tenent: () => 'a' } as HttpSettings<Request>;
  assert.throws(() => fetchIdempotency(ledger, () => new Response(), tenent), at('tenent', 'the middleware'));
  for (const options of [Buffer.from('body'), null, 'payments'] as unknown as DeliveryOptions[]) {
    await assert.rejects(
      ledger.process(key, () => 'never', options),
      /^InvalidField: options: must be an object/,
    );
  }
  assert.deepEqual(methods(), []);
});

test('result_that_is_none_is_logged_and_completes', async () => {
  const outcome = await ledger.process(key, () => ({}) as unknown as string);
  assert.deepEqual([outcome.advice, outcome.result], ['ACK', undefined]);
  assert.equal(lines.length, 1);
});

test('function_made_idempotent_returns_the_first_value', async () => {
  const twice = makeIdempotent((amount: number) => Promise.resolve({ amount }), { ledger, key: () => key });
  assert.deepEqual(await twice(3), { amount: 3 });
  const value = { result: Buffer.from('{"amount":3}') };
  server.answers['Claim'] = [
    encoded(ClaimResponseSchema, { advice: Advice.ACK, verdict: { case: 'completed', value } }),
  ];
  assert.deepEqual(await twice(4), { amount: 3 });
});

test('server_that_is_away_is_no_error_of_process', async () => {
  server.answers['Claim'] = [failure('STORE_UNAVAILABLE')];
  const outcome = await ledger.process(key, () => 'never');
  assert.deepEqual([outcome.advice, outcome.reason], ['RETRY_LATER', 'STORE_UNAVAILABLE']);
  assert.deepEqual(lines, ['idempotency-ledger: c: STORE_UNAVAILABLE: scripted: RETRY_LATER']);
});
