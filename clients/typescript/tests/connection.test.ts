import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { TokenFile, channelOf, targetOf } from '../src/connection.js';
import { InvalidField, Retry, markOfGuard } from '../src/errors.js';
import { Report } from '../src/report.js';
import { outcome } from '../src/outcome.js';
import { failureOf } from '../src/transport.js';
import { Metadata, status } from '@grpc/grpc-js';

const field = (name: string) => (error: unknown) => error instanceof InvalidField && error.field === name;

test('endpoints_become_targets', () => {
  const targets: [string, string, boolean][] = [
    ['ledger:50051', 'dns:///ledger:50051', false],
    ['127.0.0.1:50051', '127.0.0.1:50051', false],
    ['[::1]:50051', '[::1]:50051', false],
    ['http://ledger:1/', 'dns:///ledger:1', false],
    ['https://ledger:1', 'dns:///ledger:1', true],
    ['dns:///ledger:1', 'dns:///ledger:1', false],
    ['ipv4:10.0.0.1:1,10.0.0.2:1', 'ipv4:10.0.0.1:1,10.0.0.2:1', false],
    ['unix:/run/ledger', 'unix:/run/ledger', false],
  ];
  for (const [endpoint, target, tls] of targets) assert.deepEqual(targetOf(endpoint, false), { target, tls });
  for (const wrong of ['ledger', 'ledger:x', ':1', 'a:b:1'])
    assert.throws(() => targetOf(wrong, false), field('endpoint'));
  assert.throws(() => targetOf('http://ledger:1', true), field('endpoint'));
});

test('environment_says_what_is_not_given', () => {
  assert.equal(channelOf({}, {}).target, '127.0.0.1:50051');
  assert.equal(channelOf({}, { LEDGER_ENDPOINT: 'a:1' }).target, 'dns:///a:1');
  assert.equal(channelOf({ endpoint: 'b:1' }, { LEDGER_ENDPOINT: 'a:1' }).target, 'dns:///b:1');
});

test('parts_that_contradict_each_other_are_refused', () => {
  assert.throws(() => channelOf({ endpoint: 'a:1', tokenFile: '/t' }, {}), field('tokenFile'));
  assert.throws(() => channelOf({}, { LEDGER_TOKEN_FILE: '/t' }), field('tokenFile'));
  assert.throws(() => channelOf({ endpoint: 'https://a:1', clientCertFile: '/c' }, {}), field('clientCertFile'));
  assert.throws(() => channelOf({ clientCertFile: '/c', clientKeyFile: '/k' }, {}), field('clientCertFile'));
  assert.throws(() => channelOf({ endpoint: 'ipv4:1.1.1.1:1,1.1.1.2:1', caFile: '/ca' }, {}), field('endpoint'));
});

test('service_config_spreads_calls_and_repeats_none', () => {
  const { options } = channelOf({}, {});
  assert.deepEqual(JSON.parse(String(options['grpc.service_config'])), {
    loadBalancingConfig: [{ round_robin: {} }],
    healthCheckConfig: { serviceName: 'accepting' },
  });
  assert.equal(channelOf({ endpoint: 'ipv4:1.1.1.1:1,1.1.1.2:1' }, {}).options['grpc.default_authority'], 'ledger');
});

test('token_is_read_again_when_its_file_changes', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'ledger-'));
  try {
    const path = join(folder, 'token');
    writeFileSync(path, 'one\n');
    const token = new TokenFile(path);
    assert.equal(await token.read(), 'one');
    writeFileSync(path, 'three\n');
    assert.equal(await token.read(), 'three');
    rmSync(path);
    await assert.rejects(token.read());
    writeFileSync(path, 'four');
    assert.equal(await token.read(), 'four');
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('errors_of_the_ledger_are_known_by_their_trailers', () => {
  const metadata = new Metadata();
  metadata.set('idempotency-ledger-reason', 'OVERLOADED');
  metadata.set('idempotency-ledger-advice', 'RETRY_LATER');
  metadata.set('idempotency-ledger-retry-after-ms', '700');
  const ours = failureOf({ code: status.RESOURCE_EXHAUSTED, details: 'd'.repeat(600), metadata }, 'ledger:1');
  assert.deepEqual(
    [ours.code, ours.reason, ours.retryAfter, ours.text.length],
    ['RESOURCE_EXHAUSTED', 'OVERLOADED', 700, 500],
  );
  assert.ok(!ours.unknown && ours.repeatable);
  const hop = failureOf({ code: status.INTERNAL, details: '', metadata: new Metadata() }, 'ledger:1');
  assert.ok(hop.unknown && hop.repeatable && hop.advised() === 'RETRY_LATER');
  assert.equal(failureOf({}, 'ledger:1').code, 'UNKNOWN');
  const text = failureOf({ code: status.DEADLINE_EXCEEDED, details: 'late' }, 'ledger.example:1').text;
  assert.equal(text, 'no answer from ledger.example:1 (option endpoint, else LEDGER_ENDPOINT): late');
});

test('log_has_a_line_a_second_of_each_kind', () => {
  const lines: string[] = [];
  let now = 0;
  const report = new Report(
    'c',
    (line) => lines.push(line),
    () => now,
  );
  const refused = outcome('RETRY_LATER', { reason: 'OVERLOADED', detail: 'busy' });
  for (let time = 0; time < 3; time += 1) report.outcome(refused);
  report.outcome(outcome('DEAD_LETTER', { error: new TypeError('card 4111') }));
  report.outcome(outcome('RETRY_LATER', { error: new Retry('chosen') }));
  const fault = new InvalidField('key.id', 'has 513 bytes');
  report.outcome(outcome('DEAD_LETTER', { reason: 'INVALID_FIELD', detail: fault.message, error: fault }));
  report.outcome(outcome('RETRY_LATER', { error: markOfGuard(new Retry('RangeError')) }));
  now = 1_000;
  report.outcome(refused);
  assert.deepEqual(lines, [
    'idempotency-ledger: c: OVERLOADED: busy: RETRY_LATER',
    'idempotency-ledger: c: TypeError was thrown (see outcome.error): DEAD_LETTER',
    'idempotency-ledger: c: INVALID_FIELD: key.id: has 513 bytes: DEAD_LETTER',
    'idempotency-ledger: c: guard: RangeError (see the cause of outcome.error): RETRY_LATER',
    'idempotency-ledger: c: OVERLOADED: busy: RETRY_LATER; 2 more of this kind were suppressed',
  ]);
});
