import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { afterEach, beforeEach, test } from 'node:test';
import { fromBinary } from '@bufbuild/protobuf';
import { durationOf } from '../src/core/world.js';
import {
  Advice,
  CompleteRequestSchema,
  FailRequestSchema,
  FailResponseSchema,
  FailureKind,
} from '../src/gen/idempotency/ledger/v1/ledger_pb.js';
import { type HttpSettings, claimOf, expressIdempotency, fetchIdempotency } from '../src/http/index.js';
import { InvalidField, Ledger } from '../src/index.js';
import { ScriptedServer } from './server.js';
import { completed, encoded, failure, granted } from './world.js';

type App = (req: IncomingMessage, res: ServerResponse) => void | Promise<void>;
let server: ScriptedServer;
let ledger: Ledger;
let stops: (() => void)[];

beforeEach(async () => {
  server = new ScriptedServer();
  server.answers['Claim'] = [granted({ lease: durationOf(60_000) })];
  server.answers['Complete'] = [completed];
  server.answers['Fail'] = [encoded(FailResponseSchema, { advice: Advice.RETRY_LATER })];
  ledger = new Ledger({ consumer: 'api', endpoint: await server.start(), log: () => undefined });
  stops = [];
});

afterEach(async () => {
  for (const stop of stops) stop();
  await ledger.close();
  server.stop();
});

/** Serves the application behind the middleware; `before` runs before it. */
async function site(app: App, settings: HttpSettings<IncomingMessage> = {}, before: App = () => undefined) {
  const middleware = expressIdempotency(ledger, settings);
  const listener = createServer((req, res) => {
    const next = (error?: unknown) => {
      if (error) res.writeHead(500).end(error instanceof Error ? error.message : 'error');
      else void app(req, res);
    };
    void Promise.resolve(before(req, res)).then(() => middleware(req, res, next));
  });
  listener.listen(0, '127.0.0.1');
  await once(listener, 'listening');
  stops.push(() => {
    listener.closeAllConnections();
    listener.close();
  });
  const { port } = listener.address() as AddressInfo;
  return (body: string | ReadableStream = '', headers: Record<string, string> = {}) =>
    fetch(`http://127.0.0.1:${port}/orders`, {
      method: 'POST',
      body,
      headers: { 'idempotency-key': 'k', ...headers },
      ...(typeof body === 'string' ? {} : { duplex: 'half' as const }),
    });
}

async function textOf(stream: AsyncIterable<unknown>): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of stream) parts.push(Buffer.from(part as Uint8Array));
  return Buffer.concat(parts).toString();
}

const last = (method: string) => server.arrived.filter((call) => call.method === method).at(-1)?.request;
const stored = () =>
  Buffer.from(fromBinary(CompleteRequestSchema, last('Complete') ?? new Uint8Array()).result).toString();

test('application_reads_the_body_as_it_came', async () => {
  const post = await site(async (req, res) => {
    res.end(await textOf(req));
  });
  assert.equal(await (await post('a body')).text(), 'a body');
  assert.equal(await (await post('')).text(), '');
  const large = 'x'.repeat(300_000);
  const chunks = Readable.toWeb(Readable.from([large, large])) as ReadableStream;
  assert.equal((await (await post(chunks)).text()).length, 600_000);
});

test('answer_is_stored_however_it_is_written', async () => {
  const post = await site((_req, res) => {
    res.setHeader('x-own', '1');
    res.writeHead(201, 'Made', ['Content-Type', 'text/plain', 'Location', '/o/1']);
    assert.ok(res.headersSent);
    res.write('a', () => {
      res.write(Buffer.from('b').toString('base64'), 'base64');
      Readable.from([Buffer.from('c'), Buffer.from('d')]).pipe(res);
    });
  });
  const reply = await post();
  assert.deepEqual([reply.status, reply.statusText, await reply.text()], [201, 'Made', 'abcd']);
  assert.deepEqual([reply.headers.get('x-own'), reply.headers.get('location')], ['1', '/o/1']);
  assert.equal(stored(), '[201,[["content-type","text/plain"],["location","/o/1"]]]\nabcd');
});

test('answer_that_is_too_large_for_memory_has_no_body', async () => {
  const post = await site((_req, res) => void res.setHeader('content-length', '200').end('x'.repeat(200)), {
    answerMax: 100,
  });
  const reply = await post();
  assert.deepEqual([reply.status, await reply.text(), reply.headers.get('idempotency-body')], [200, '', 'omitted']);
  assert.equal(stored(), '[200,[],"omitted"]');
});

test('destroyed_response_is_a_failure', async () => {
  const post = await site((_req, res) => void res.destroy(new RangeError('card 4111')));
  await assert.rejects(post());
  const fail = fromBinary(FailRequestSchema, last('Fail') ?? new Uint8Array());
  assert.deepEqual([fail.kind, fail.error], [FailureKind.RETRYABLE, 'RangeError']);
});

test('lost_claim_is_answered_while_the_application_goes_on', async () => {
  server.answers['Claim'] = [granted({ lease: durationOf(300) })];
  server.answers['Renew'] = [failure('LEASE_LOST')];
  let go: () => void = () => undefined;
  const answered = new Promise<void>((resolve) => (go = resolve));
  const post = await site(async (req, res) => {
    await once(claimOf(req)?.signal ?? new AbortController().signal, 'abort');
    await answered;
    res.setHeader('location', '/o/1');
    res.statusCode = 201;
    res.end('late');
  });
  const reply = await post();
  assert.deepEqual([reply.status, reply.headers.get('retry-after')], [503, '1']);
  assert.match(await reply.text(), /cannot be known/);
  go();
  assert.ok(await ledger.close());
  // What the application has answered all the same is reported, with its own headers.
  assert.equal(stored(), '[201,[["location","/o/1"]]]\nlate');
});

test('headers_of_other_middleware_stay_with_a_refusal', async () => {
  server.answers['Claim'] = [failure('STORE_UNAVAILABLE')];
  const cors: App = (_req, res) => void res.setHeader('access-control-allow-origin', '*');
  const post = await site(() => assert.fail('the application runs'), {}, cors);
  const reply = await post();
  assert.deepEqual([reply.status, reply.headers.get('access-control-allow-origin')], [503, '*']);
});

test('body_that_was_read_before_needs_its_raw_form', async () => {
  const consume: App = async (req) => {
    await textOf(req);
  };
  const post = await site((_req, res) => void res.end('done'), {}, consume);
  const refused = await post('{}');
  assert.equal(refused.status, 500);
  assert.match(await refused.text(), /rawBody/);
  assert.equal(await (await post('')).text(), 'done');
  const keep: App = async (req) => {
    Object.assign(req, { rawBody: Buffer.from(await textOf(req)) });
  };
  const kept = await site((_req, res) => void res.end('done'), {}, keep);
  assert.equal(await (await kept('{}')).text(), 'done');
});

test('claim_of_a_request_is_found_while_it_is_processed', async () => {
  const found: unknown[] = [];
  const post = await site(
    (req, res) => {
      found.push(claimOf(req)?.idempotencyKey, claimOf({ raw: req })?.attempt);
      res.end();
    },
    { required: false },
  );
  await post();
  assert.deepEqual(found, ['k', 1]);
  assert.equal(claimOf({}), undefined);
});

test('tenant_that_is_not_text_is_refused_and_nothing_is_sent', async () => {
  for (const [setting, returned, named] of [
    ['tenant', undefined, 'undefined'],
    ['tenant', null, 'null'],
    ['tenant', 7, 'number'],
    ['tenant', Promise.resolve(undefined), 'undefined'],
    ['route', undefined, 'undefined'],
  ] as const) {
    const settings = { [setting]: () => returned } as unknown as HttpSettings<IncomingMessage>;
    const post = await site(() => assert.fail('the application runs'), settings);
    const refused = await post('{}');
    assert.equal(refused.status, 500);
    assert.match(await refused.text(), new RegExp(`^${setting}: must return text for each request, not ${named}(;|$)`));
  }
  assert.deepEqual(server.arrived, []);
  const post = await site((_req, res) => void res.end('done'), { tenant: () => '' });
  assert.equal(await (await post()).text(), 'done');
});

test('tenant_of_a_fetch_handler_that_is_not_text_is_refused', async () => {
  const tenant = () => undefined as unknown as string;
  const handler = fetchIdempotency(ledger, () => assert.fail('the application runs'), { tenant });
  const request = new Request('http://site/orders', { method: 'POST', headers: { 'idempotency-key': 'k' } });
  await assert.rejects(handler(request), (error) => error instanceof InvalidField && error.field === 'tenant');
  assert.deepEqual(server.arrived, []);
});
