import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { test } from 'node:test';
import type { ChannelModel, ConfirmChannel, ConsumeMessage, Options } from 'amqplib';
import { Copies, notDueFor, turnOf, unlimited } from '../src/brokers/rabbitmq-copies.js';
import { NoId, QueueConsumer, named } from '../src/brokers/rabbitmq.js';
import { InvalidField, Ledger, LedgerError } from '../src/index.js';

const delivered = (properties: object, body = '{}') =>
  ({ content: Buffer.from(body), fields: {}, properties }) as unknown as ConsumeMessage;

test('name_is_that_of_the_event_else_queue_and_message_id', () => {
  const nameOf = (properties: object, body?: string) => {
    const { key, occurredAt } = named('orders', delivered(properties, body));
    return [key.source, key.id, occurredAt?.toISOString()];
  };
  const time = { '!': 'timestamp', value: 1_767_355_200 };
  const event = { 'cloudEvents:id': 2, 'cloudEvents:source': 'shop', 'cloudEvents:time': time };
  assert.deepEqual(nameOf({ messageId: '1' }), ['orders', '1', undefined]);
  assert.deepEqual(nameOf({ messageId: '1', headers: event }), ['shop', '2', '2026-01-02T12:00:00.000Z']);
  const structured = { contentType: 'application/cloudevents+json' };
  assert.deepEqual(nameOf(structured, '{"id": "3", "source": "shop"}'), ['shop', '3', undefined]);
  for (const wrong of [
    {},
    { messageId: '' },
    { messageId: '1\ufffd' },
    { messageId: '1', headers: { 'without-message-id': 'true' } },
    // Their texts would differ from language to language, or are not exact.
    { headers: { ...event, 'cloudEvents:id': Buffer.from('2') } },
    { headers: { ...event, 'cloudEvents:id': 2 ** 53 } },
    { headers: { ...event, 'cloudEvents:id': 1.5 } },
  ]) {
    assert.throws(() => nameOf(wrong), NoId, JSON.stringify(wrong));
  }
});

test('postponed_message_waits_until_it_is_due', () => {
  const restOf = (due: unknown) => notDueFor(delivered({ headers: { 'retry-at': due } }));
  assert.equal(notDueFor(delivered({})), 0);
  assert.equal(restOf('soon'), 0);
  assert.ok(restOf(Date.now() - 1_000) <= 0);
  const rest = restOf(Date.now() + 60_000);
  assert.ok(rest > 59_000 && rest <= 60_000);
  assert.equal(restOf(Date.now() + 1e12), 900_000);
});

test('turn_is_the_longest_that_does_not_exceed_the_delay', () => {
  for (const [delay, seconds] of [
    [0, 1],
    [1_999, 1],
    [2_000, 2],
    [59_000, 30],
    [1e9, 900],
  ] as const) {
    assert.equal(turnOf(delay), seconds);
  }
});

test('queues_have_no_delivery_limit', () => {
  for (const [version, limited] of [
    ['3.13.7', false],
    ['4.0.5', true],
    [undefined, false],
  ] as const) {
    assert.equal('x-delivery-limit' in unlimited(version), limited);
  }
});

/** A channel that confirms each copy, in the way of the next script. */
class Confirming extends EventEmitter {
  readonly published: { queue: string; options: Options.Publish & { headers: object } }[] = [];
  next: 'ack' | 'nack' | 'return' = 'ack';

  publish(_exchange: string, queue: string, _body: Buffer, options: Options.Publish, done: (error: unknown) => void) {
    this.published.push({ queue, options: options as Options.Publish & { headers: object } });
    setImmediate(() => {
      if (this.next === 'return') this.emit('return', { fields: { routingKey: queue } });
      done(this.next === 'nack' ? new Error('message nacked') : null);
    });
  }
}

const copiesOver = (channel: Confirming) =>
  new Copies({} as unknown as ChannelModel, channel as unknown as ConfirmChannel);

test('copy_leaves_out_what_would_act_on_it', async () => {
  const channel = new Confirming();
  const headers = { CC: ['more'], 'x-death': [], 'retry-at': 1, trace: 'a' };
  const properties = {
    headers,
    expiration: '5',
    userId: 'other',
    messageId: '1',
    contentType: 'text/plain',
    deliveryMode: 1,
  };
  await copiesOver(channel).store(delivered(properties), 'q', { 'dead-letter-reason': 'why' });
  const { options } = channel.published[0] ?? assert.fail('nothing is published');
  assert.deepEqual(options.headers, { trace: 'a', 'dead-letter-reason': 'why' });
  assert.deepEqual([options.expiration, options.userId], [undefined, undefined]);
  assert.deepEqual(
    [options.messageId, options.contentType, options.persistent, options.mandatory],
    ['1', 'text/plain', true, true],
  );
});

test('copy_that_is_refused_or_that_no_queue_takes_is_not_stored', async () => {
  const channel = new Confirming();
  const copies = copiesOver(channel);
  channel.next = 'nack';
  await assert.rejects(copies.store(delivered({}), 'q', {}));
  channel.next = 'return';
  await assert.rejects(copies.store(delivered({}), 'q', {}), LedgerError);
  channel.next = 'ack';
  await copies.store(delivered({}), 'q', {});
});

test('options_are_checked', () => {
  const ledger = new Ledger({ consumer: 'c', endpoint: '127.0.0.1:1' });
  const connection = { createConfirmChannel: () => undefined } as unknown as ChannelModel;
  const right = { ledger, connection, queue: 'q', handler: () => undefined };
  new QueueConsumer(right);
  for (const wrong of [{ queue: '' }, { connection: {} }, { deadLetters: '' }, { queues: 'q' }]) {
    assert.throws(() => new QueueConsumer({ ...right, ...(wrong as object) }), InvalidField);
  }
  const recovering = {
    createConfirmChannel: () => undefined,
    waitForConnect: () => undefined,
  } as unknown as ChannelModel;
  assert.throws(() => new QueueConsumer({ ...right, connection: recovering }), InvalidField);
});
