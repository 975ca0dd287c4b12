import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Consumer, JetStreamClient, JetStreamPublishOptions, JsMsg } from '@nats-io/jetstream';
import { headers } from '@nats-io/transport-node';
import { JetStreamConsumer, NoId, extendEvery, named, toSubject } from '../src/brokers/nats.js';
import { InvalidField, Ledger } from '../src/index.js';

function delivered(given: Record<string, string[]>, body = '{}'): JsMsg {
  const found = headers();
  for (const [name, values] of Object.entries(given)) for (const value of values) found.append(name, value);
  const place = { info: { stream: 'ORDERS' }, seq: 7, timestampNanos: 1_700_000_000_000_000_001n };
  return { headers: found, data: Buffer.from(body), ...place } as unknown as JsMsg;
}

const ledger = new Ledger({ consumer: 'c', endpoint: '127.0.0.1:1' });
const handler = () => undefined;

test('name_is_that_of_the_event_else_stream_and_message_id', () => {
  const nameOf = (given: Record<string, string[]>) => {
    const { key } = named(delivered(given));
    return [key.source, key.id];
  };
  assert.deepEqual(nameOf({ 'Nats-Msg-Id': ['1'] }), ['ORDERS', '1']);
  assert.deepEqual(nameOf({ 'Nats-Msg-Id': ['1'], 'ce-id': ['2'], 'ce-source': ['shop'] }), ['shop', '2']);
  assert.throws(() => nameOf({}), NoId);
  assert.throws(() => named({ data: new Uint8Array() } as unknown as JsMsg), NoId);
  // The client has replaced a byte that is not UTF-8: another id would be the same.
  assert.throws(() => nameOf({ 'Nats-Msg-Id': ['1\ufffd'] }), NoId);
});

test('dead_letter_has_no_headers_for_its_stream', async () => {
  const stored: { subject: string; data: unknown; options: Partial<JetStreamPublishOptions> }[] = [];
  const stream = {
    publish: (subject: string, data: unknown, options: Partial<JetStreamPublishOptions>) => {
      stored.push({ subject, data, options });
      return Promise.resolve();
    },
  } as unknown as JetStreamClient;
  const message = delivered({
    'Nats-Msg-Id': ['1'],
    'Nats-Rollup': ['all'],
    'nats-ttl': ['1s'],
    Trace: ['a', 'b'],
  });
  await toSubject(stream, 'dead')(message, 'no\nfunds: 5 €');
  const [letter] = stored;
  assert.equal(letter?.subject, 'dead');
  assert.equal(letter.data, message.data);
  assert.equal(letter.options.msgID, 'dead/ORDERS/7/1700000000000000001');
  const found = Object.fromEntries(letter.options.headers ?? []);
  assert.deepEqual(found, {
    Trace: ['a', 'b'],
    'Dead-Letter-Msg-Id': ['1'],
    'Dead-Letter-Reason': ['no?funds: 5 ?'],
  });
});

test('extension_is_at_a_third_of_the_shortest_wait', () => {
  assert.equal(extendEvery({}), 10_000);
  assert.equal(extendEvery({ ack_wait: 3e9 }), 1_000);
  assert.equal(extendEvery({ ack_wait: 3e9, backoff: [6e8, 9e9] }), 200);
  assert.equal(extendEvery({ ack_wait: 1 }), 10);
});

test('consumer_without_explicit_acknowledgement_is_refused', async () => {
  const info = () => Promise.resolve({ stream_name: 'ORDERS', name: 'payments', config: { ack_policy: 'all' } });
  const consumer = { fetch: () => assert.fail('nothing may be fetched'), info } as unknown as Consumer;
  await assert.rejects(
    new JetStreamConsumer({ ledger, consumer, handler }).run(new AbortController().signal),
    InvalidField,
  );
});

test('options_are_checked', () => {
  const consumer = { fetch: () => undefined } as unknown as Consumer;
  for (const wrong of [{ consumer: undefined }, { consumer: {} }, { concurrencies: 3 }, { ledger: {} }]) {
    assert.throws(() => new JetStreamConsumer({ ledger, consumer, handler, ...(wrong as object) }), InvalidField);
  }
  assert.throws(() => toSubject({} as JetStreamClient, ''), InvalidField);
});
