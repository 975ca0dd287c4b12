import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import { IdempotencyConfig, makeIdempotent } from '@aws-lambda-powertools/idempotency';
import { fromBinary } from '@bufbuild/protobuf';
import {
  Advice,
  ClaimRequestSchema,
  ClaimResponseSchema,
  CompleteRequestSchema,
  FailRequestSchema,
  FailResponseSchema,
  FailureKind,
} from '../src/gen/idempotency/ledger/v1/ledger_pb.js';
import { Ledger, NoResult } from '../src/index.js';
import { LedgerPersistenceLayer } from '../src/powertools.js';
import { ScriptedServer } from './server.js';
import { completed, encoded, failure, granted } from './world.js';

let server: ScriptedServer;
let ledger: Ledger;
let runs: number;

beforeEach(async () => {
  server = new ScriptedServer();
  server.answers['Claim'] = [granted()];
  server.answers['Complete'] = [completed];
  server.answers['Fail'] = [encoded(FailResponseSchema, { advice: Advice.DEAD_LETTER })];
  runs = 0;
  ledger = new Ledger({ consumer: 'c', endpoint: await server.start(), log: () => undefined });
});

afterEach(async () => {
  assert.ok(await ledger.close(), 'an invocation has left its claim open');
  server.stop();
});

function charging(effect: () => Promise<object> = () => Promise.resolve({ receipt: 1 })) {
  const charge = async (given: { id: string; amount: number }) => {
    assert.equal(given.id, 'one');
    runs += 1;
    return effect();
  };
  const config = new IdempotencyConfig({ eventKeyJmesPath: 'id', payloadValidationJmesPath: 'amount' });
  config.registerLambdaContext({ getRemainingTimeInMillis: () => 10_000 });
  return makeIdempotent(charge, { persistenceStore: new LedgerPersistenceLayer({ ledger }), config });
}

const order = { id: 'one', amount: 3 };
const requests = (method: string) =>
  server.arrived.filter((call) => call.method === method).map((call) => call.request);
const verdict = (found: Parameters<typeof encoded<typeof ClaimResponseSchema>>[1]) =>
  encoded(ClaimResponseSchema, found);

test('first_invocation_runs_and_is_completed', async () => {
  assert.deepEqual(await charging()(order), { receipt: 1 });
  const [claim, complete] = [requests('Claim')[0], requests('Complete')[0]];
  assert.ok(claim && complete);
  const { key, fingerprint } = fromBinary(ClaimRequestSchema, claim);
  assert.equal(key?.source, 'powertools');
  assert.ok(fingerprint.length > 0);
  assert.equal(Buffer.from(fromBinary(CompleteRequestSchema, complete).result).toString(), '{"receipt":1}');
});

test('repeated_invocation_gets_the_first_response', async () => {
  const value = { result: Buffer.from('{"receipt":1}') };
  server.answers['Claim'] = [verdict({ advice: Advice.ACK, verdict: { case: 'completed', value } })];
  assert.deepEqual(await charging()(order), { receipt: 1 });
  assert.equal(runs, 0);
});

test('response_that_is_not_stored_is_an_error_and_no_second_effect', async () => {
  const value = { resultDropped: true };
  server.answers['Claim'] = [verdict({ advice: Advice.ACK, verdict: { case: 'completed', value } })];
  const dropped = (error: unknown) => error instanceof Error && error.cause instanceof NoResult;
  await assert.rejects(charging()(order), dropped);
  assert.equal(runs, 0);
});

test('other_verdicts_are_the_errors_of_powertools', async () => {
  const verdicts = [
    [{ case: 'inProgress', value: {} }, Advice.RETRY_LATER, 'IdempotencyAlreadyInProgressError'],
    [{ case: 'fingerprintMismatch', value: {} }, Advice.DEAD_LETTER, 'IdempotencyPersistenceLayerError'],
    [{ case: 'parked', value: {} }, Advice.DEAD_LETTER, 'IdempotencyPersistenceLayerError'],
  ] as const;
  for (const [found, advice, name] of verdicts) {
    server.answers['Claim'] = [verdict({ advice, verdict: found })];
    await assert.rejects(charging()(order), { name });
  }
  server.answers['Claim'] = [failure('STORE_UNAVAILABLE')];
  await assert.rejects(charging()(order), { name: 'IdempotencyPersistenceLayerError' });
  assert.equal(runs, 0);
});

test('error_of_the_function_is_settled_as_unexpected', async () => {
  await assert.rejects(charging(() => Promise.reject(new RangeError('card 4111')))(order), RangeError);
  const fail = fromBinary(FailRequestSchema, requests('Fail')[0] ?? new Uint8Array());
  assert.deepEqual([fail.kind, fail.error], [FailureKind.PARK, 'FunctionFailed']);
});

test('two_attempts_of_one_key_in_one_process_end_in_doubt', async () => {
  let go: () => void = () => undefined;
  const held = new Promise<void>((resolve) => (go = resolve));
  const charge = charging(async () => {
    if (runs === 2) go();
    await held;
    return {};
  });
  // The second one is granted since the first one's lease is over by the ledger.
  const outcomes = await Promise.allSettled([charge(order), charge(order)]);
  assert.deepEqual(
    outcomes.map(({ status }) => status),
    ['rejected', 'rejected'],
  );
  assert.deepEqual([requests('Complete').length, requests('Fail').length], [0, 0]);
});
