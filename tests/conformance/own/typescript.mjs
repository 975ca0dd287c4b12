// The forms that only the TypeScript package has: blocks, functions made idempotent, both module systems. It exits with 0
// where all are right.
import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { randomUUID } from 'node:crypto';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';

const PACKAGE = process.env.LEDGER_PACKAGE;
const packages = createRequire(join(PACKAGE, 'package.json'));
const il = await import(pathToFileURL(join(PACKAGE, 'dist/index.mjs')).href);
const { fetchIdempotency } = await import(pathToFileURL(join(PACKAGE, 'dist/http/index.mjs')).href);
const run = randomUUID();
const key = (name) => il.Key.fromCloudEvent({ source: 'forms', id: `${name}-${run}` });
const text = (bytes) => Buffer.from(bytes).toString();

async function blocks(ledger) {
  const claim = await ledger.claim(key('block'));
  assert.ok(claim.granted && claim.attempt === 1 && claim.onExpiry === 'RECLAIM');
  assert.equal(typeof claim.token, 'bigint');
  assert.throws(() => claim.outcome, il.NotGranted);
  await claim.complete('r');
  await claim[Symbol.asyncDispose]();
  assert.equal(claim.outcome.advice, il.Advice.ACK);

  const again = await ledger.claim(key('block'));
  assert.ok(!again.granted);
  assert.throws(() => again.token, il.NotGranted);
  assert.ok((await again.end()).replayed);
  assert.equal(text(again.outcome.result), 'r');

  const steered = await ledger.claim(key('steered'));
  await steered.fail(new il.Retry(undefined, { afterMs: 5_000 }));
  assert.equal((await steered.end()).advice, 'RETRY_LATER');
  assert.ok(steered.outcome.delayMs > 4_000);

  const forgotten = await ledger.claim(key('forgotten'));
  assert.equal((await forgotten.end()).reason, 'NotSettled');
  assert.equal(forgotten.outcome.advice, 'DEAD_LETTER');

  const lost = await ledger.claim(key('lost'));
  await new Promise((resolve) => lost.signal.addEventListener('abort', resolve));
  assert.equal(lost.signal.reason.reason, 'LEASE_LOST');
  assert.throws(() => lost.check(), il.ClaimLost);
  await lost.fail(lost.signal.reason);
  assert.equal((await lost.end()).reason, 'LEASE_LOST');
  assert.ok(lost.outcome.effectUnknown);
}

async function completedWithoutWaiting(ledger) {
  // A promise that no one waits for: the first settlement stands, and is waited for.
  const outcome = await ledger.process(key('floating'), (claim) => void claim.complete('first'));
  assert.deepEqual([outcome.advice, text(outcome.result)], ['ACK', 'first']);
}

async function functions(ledger) {
  const calls = [];
  const charge = il.makeIdempotent(
    async function charge(order, amount = 1) {
      await setImmediate();
      calls.push(order);
      if (order === 'faulty') throw new RangeError(order);
      return { order, amount };
    },
    { ledger, key: (order) => key(`function-${order}`), body: (_order, amount) => Buffer.from(String(amount)) },
  );
  assert.equal(charge.name, 'charge');
  assert.deepEqual(await charge('one', 3), { order: 'one', amount: 3 });
  assert.deepEqual(await charge('one', 3), { order: 'one', amount: 3 });
  await assert.rejects(charge('one', 4), il.NoResult);
  await assert.rejects(charge('faulty'), RangeError);
  await assert.rejects(charge('faulty'), il.NoResult);
  assert.deepEqual(calls, ['one', 'faulty']);

  const nothing = il.makeIdempotent(() => undefined, { ledger, key: () => key('nothing') });
  assert.equal(await nothing(), undefined);
  assert.equal(await nothing(), undefined);

  const unstorable = il.makeIdempotent(() => 1n, { ledger, key: () => key('unstorable') });
  for (let time = 0; time < 2; time += 1) {
    // The effect is done, and its value cannot be stored: a repeat has no second one.
    const dropped = (error) => error.outcome.advice === 'ACK' && error.outcome.resultDropped;
    await assert.rejects(unstorable(), dropped);
  }
}

async function modules() {
  const required = packages(PACKAGE);
  assert.equal(required.Retry, il.Retry, 'a program that imports and requires the package has two of its classes');
  assert.equal(required.Ledger, il.Ledger);
}

/** A request whose tenant is `undefined` is refused: as text it would be the tenant of all such requests. */
async function tenants(ledger) {
  const handler = fetchIdempotency(ledger, () => new Response('done'), { tenant: (request) => request.user?.tenant });
  const request = () => new Request('http://forms/orders', { method: 'POST', headers: { 'idempotency-key': run } });
  await assert.rejects(handler(request()), (error) => error instanceof il.InvalidField && error.field === 'tenant');
}

/** `traceparent` is sent with each call where the application has OpenTelemetry. */
async function traced(ledger) {
  const { context, propagation, trace, ROOT_CONTEXT } = packages('@opentelemetry/api');
  const storage = new AsyncLocalStorage();
  context.setGlobalContextManager({
    active: () => storage.getStore() ?? ROOT_CONTEXT,
    with: (active, fn, self, ...given) => storage.run(active, () => fn.apply(self, given)),
    bind: (_active, target) => target,
    enable: () => undefined,
    disable: () => undefined,
  });
  propagation.setGlobalPropagator({
    inject(active, carrier, setter) {
      const { traceId, spanId } = trace.getSpanContext(active) ?? {};
      if (traceId) setter.set(carrier, 'traceparent', `00-${traceId}-${spanId}-01`);
      setter.set(carrier, 'baggage', 'h\u00e9'); // gRPC takes no such header: the call is sent without it.
    },
    extract: (active) => active,
    fields: () => ['traceparent'],
  });
  const span = trace.wrapSpanContext({ traceId: `${'0'.repeat(29)}abc`, spanId: `${'0'.repeat(13)}def`, traceFlags: 1 });
  const active = trace.setSpan(context.active(), span);
  const outcome = await context.with(active, () => ledger.process(key('traced'), () => 'r'));
  assert.equal(outcome.advice, 'ACK');
  console.log('traced');
}

const ledger = new il.Ledger({ consumer: 'effects', log: () => undefined });
await blocks(ledger);
await completedWithoutWaiting(ledger);
await functions(ledger);
await modules();
await tenants(ledger);
await traced(ledger);
await ledger[Symbol.asyncDispose]();
await assert.rejects(ledger.process(key('late'), () => 'r'), il.Closed);
