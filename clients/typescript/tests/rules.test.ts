import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as rules from '../src/http/rules.js';
import { outcome } from '../src/outcome.js';

const settings = rules.settingsOf({});
const answer = (status: number, body = '', headers: rules.Headers = []): rules.Answer => ({
  status,
  headers,
  body: Buffer.from(body),
});

test('keys_are_bare_or_quoted_and_there_once', () => {
  for (const key of ['a', 'x'.repeat(255), '8e03978e-40d5', '!#$%&~', "a'b"]) assert.equal(rules.keyOf(key), key);
  assert.equal(rules.keyOf('"a, b"'), 'a, b');
  assert.equal(rules.keyOf('"a\\"b\\\\"'), 'a"b\\');
  for (const key of [
    '',
    ' ',
    'a b',
    'a,b',
    'a, b',
    '"a',
    'a"',
    '"a" "b"',
    '"a", "b"',
    'x'.repeat(256),
    '"a";b',
    'ü',
    '""',
    'a\n',
  ]) {
    assert.equal(rules.keyOf(key), undefined, key);
  }
});

test('sources_are_encoded_as_in_all_languages', () => {
  assert.equal(rules.sourceOf('a', 'POST', '/orders'), 'a/POST/%2Forders');
  assert.equal(rules.sourceOf("!'()*", 'POST', 'é~_.-'), '%21%27%28%29%2A/POST/%C3%A9~_.-');
  assert.notEqual(rules.sourceOf('a/', 'POST', '/x'), rules.sourceOf('a', 'POST', '//x'));
  assert.match(rules.sourceOf('t'.repeat(300), 'POST', '/'), /^[0-9a-f]{64}$/);
  assert.equal(rules.sourceOf('t'.repeat(256 - 9), 'POST', '/').length, 256);
});

test('paths_have_no_query_and_are_decoded', () => {
  assert.equal(rules.pathOf('/a%20b?x=1#y'), '/a b');
  assert.equal(rules.pathOf('/%zz'), '/%zz');
});

test('statuses_say_what_became_of_the_effect', () => {
  for (const status of [400, 401, 403, 404, 409, 422, 429]) assert.equal(rules.defaultRule(status), 'RELEASE');
  for (const status of [200, 204, 302, 402, 418]) assert.equal(rules.defaultRule(status), 'STORE');
  for (const status of [500, 503]) assert.equal(rules.defaultRule(status), 'FAIL');
  assert.equal(rules.endingOf(settings, answer(422), true), undefined);
  assert.equal(rules.endingOf(settings, answer(422), false)?.name, 'GiveBack');
  assert.equal(rules.endingOf(settings, answer(500), false)?.name, 'Retry');
  assert.equal(rules.endingOf(settings, answer(500), true)?.name, 'Park');
});

test('stored_form_is_that_of_all_languages', () => {
  const kept = answer(201, 'created', [
    ['content-type', 'text/plain'],
    ['x-private', 'p'],
  ]);
  const stored = Buffer.from(rules.stored(settings, kept, true)).toString();
  assert.equal(stored, '[201,[["content-type","text/plain"]]]\ncreated');
  const omitted = Buffer.from(rules.stored(settings, kept, false)).toString();
  assert.equal(omitted, '[201,[["content-type","text/plain"]],"omitted"]');
  assert.ok(rules.stored(settings, answer(200, 'x'.repeat(16_384)), true).length < 100);
});

test('stored_by_python_is_replayed', () => {
  const result = Buffer.from('[201, [["content-type", "text/plain"], ["location", "/o/\\u00e9"]]]\na\nb');
  const { answer: again, omitted } = rules.replayed(outcome('ACK', { result }));
  assert.deepEqual([again.status, Buffer.from(again.body).toString(), omitted], [201, 'a\nb', false]);
  assert.deepEqual(again.headers.at(1), ['location', '/o/é']);
  assert.deepEqual(again.headers.at(-1), ['idempotency-replayed', 'true']);
  for (const left of [undefined, Buffer.from('[200, [], "omitted"]')]) {
    const without = rules.replayed(outcome('ACK', { result: left }));
    assert.ok(without.omitted && without.answer.status === 200);
    assert.deepEqual(without.answer.headers.at(-1), ['idempotency-body', 'omitted']);
  }
});

test('refusals_are_answered_by_the_outcome', () => {
  const status = (fields: Parameters<typeof outcome>) => rules.refused(outcome(...fields)).status;
  assert.equal(status(['DEAD_LETTER', { reason: 'fingerprint_mismatch' }]), 422);
  assert.equal(status(['DEAD_LETTER', { reason: 'parked' }]), 500);
  assert.equal(status(['RETRY_LATER', { reason: 'in_progress', delayMs: 1 }]), 409);
  assert.equal(status(['RETRY_LATER', { reason: 'STORE_UNAVAILABLE' }]), 503);
  const { headers } = rules.refused(outcome('RETRY_LATER', { reason: 'backoff', delayMs: 1_001 }));
  assert.deepEqual(headers.at(-1), ['retry-after', '2']);
});

test('length_is_that_of_the_body_that_is_sent', () => {
  const headers: rules.Headers = [
    ['content-length', '9'],
    ['transfer-encoding', 'chunked'],
    ['x', 'y'],
  ];
  assert.deepEqual(rules.sentHeaders(answer(200, 'ab', headers)), [
    ['x', 'y'],
    ['content-length', '2'],
  ]);
  assert.deepEqual(rules.sentHeaders(answer(204, '', headers)), [['x', 'y']]);
});
