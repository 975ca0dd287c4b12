import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import type { Message, SQSClient } from '@aws-sdk/client-sqs';
import { NoId, SqsConsumer, named } from '../src/brokers/sqs.js';
import { Advice, CompleteResponseSchema, FailResponseSchema } from '../src/gen/idempotency/ledger/v1/ledger_pb.js';
import { InvalidField, Ledger, Retry, Terminal } from '../src/index.js';
import { ScriptedServer } from './server.js';
import { encoded, granted } from './world.js';

const QUEUE = 'https://sqs.example/1/orders';

/** A client that hands out one message, and keeps what it was asked for. */
class Scripted {
  readonly asked: [command: string, input: Record<string, unknown>][] = [];
  readonly stop = new AbortController();
  refusal: Error | undefined;
  readonly #left: Message[];

  constructor(...messages: Message[]) {
    this.#left = messages;
  }

  send(command: { constructor: { name: string }; input: Record<string, unknown> }): Promise<object> {
    const { name } = command.constructor;
    if (name === 'ReceiveMessageCommand') {
      if (this.refusal) return Promise.reject(this.refusal);
      const message = this.#left.shift();
      if (!message) this.stop.abort();
      return Promise.resolve({ Messages: message && [message] });
    }
    this.asked.push([name.replace('Command', ''), command.input]);
    return Promise.resolve({});
  }
}

const text = (StringValue: string) => ({ DataType: 'String', StringValue });
const bare: Message = { Body: '{}', ReceiptHandle: 'r', MessageId: 'm' };
const message: Message = { ...bare, MessageAttributes: { id: text('1') } };

let server: ScriptedServer;
let ledger: Ledger;

beforeEach(async () => {
  server = new ScriptedServer();
  server.answers['Claim'] = [granted()];
  server.answers['Complete'] = [encoded(CompleteResponseSchema, { advice: Advice.ACK })];
  ledger = new Ledger({ consumer: 'c', endpoint: await server.start(), log: () => undefined });
});

afterEach(async () => {
  await ledger.close();
  server.stop();
});

const consumed = async (scripted: Scripted, handler: () => void = () => undefined, more = {}) => {
  const client = scripted as unknown as SQSClient;
  await new SqsConsumer({ ledger, client, queue: QUEUE, handler, ...more }).run(scripted.stop.signal);
  return scripted.asked;
};

test('name_is_that_of_the_event_else_queue_and_attribute', () => {
  const nameOf = (given: Message) => {
    const { key } = named(QUEUE, given);
    return [key.source, key.id];
  };
  assert.deepEqual(nameOf(message), ['orders', '1']);
  const event = { 'ce-id': text('2'), 'ce-source': text('shop') };
  assert.deepEqual(nameOf({ ...message, MessageAttributes: { ...message.MessageAttributes, ...event } }), [
    'shop',
    '2',
  ]);
  assert.deepEqual(nameOf({ ...bare, Attributes: { MessageDeduplicationId: '3' } }), ['orders', '3']);
  assert.throws(() => nameOf(bare), NoId);
});

test('completed_message_is_deleted', async () => {
  assert.deepEqual(await consumed(new Scripted(message)), [['DeleteMessage', { QueueUrl: QUEUE, ReceiptHandle: 'r' }]]);
});

test('message_that_comes_later_is_visible_after_whole_seconds', async () => {
  server.answers['Fail'] = [
    encoded(FailResponseSchema, { advice: Advice.RETRY_LATER, retryAfter: { seconds: 1n, nanos: 1e6 } }),
  ];
  const asked = await consumed(new Scripted(message), () => {
    throw new Retry();
  });
  const change = { QueueUrl: QUEUE, ReceiptHandle: 'r', VisibilityTimeout: 2 };
  assert.deepEqual(asked, [['ChangeMessageVisibility', change]]);
});

test('dead_letter_is_a_copy_and_then_deleted', async () => {
  server.answers['Fail'] = [encoded(FailResponseSchema, { advice: Advice.DEAD_LETTER })];
  const handler = () => {
    throw new Terminal('no\u0001funds');
  };
  const asked = await consumed(new Scripted(message), handler, { deadLetters: 'https://sqs.example/1/dead.fifo' });
  assert.deepEqual(
    asked.map(([name]) => name),
    ['SendMessage', 'DeleteMessage'],
  );
  const [[, copy] = assert.fail()] = asked;
  assert.equal(copy['MessageBody'], '{}');
  assert.equal(copy['MessageDeduplicationId'], 'm');
  const attributes = copy['MessageAttributes'] as Message['MessageAttributes'];
  assert.deepEqual(attributes?.['id'], text('1'));
  assert.equal(attributes['dead-letter-reason']?.StringValue, 'no?funds');
});

test('dead_letter_without_a_queue_is_left_to_the_redrive_policy', async () => {
  server.answers['Fail'] = [encoded(FailResponseSchema, { advice: Advice.DEAD_LETTER })];
  const handler = () => {
    throw new Terminal();
  };
  assert.deepEqual(await consumed(new Scripted(message), handler), []);
});

test('run_rejects_where_sqs_refuses', async () => {
  const scripted = new Scripted();
  scripted.refusal = Object.assign(new Error('no such queue'), { $fault: 'client', name: 'QueueDoesNotExist' });
  await assert.rejects(consumed(scripted), scripted.refusal);
});

test('options_are_checked', () => {
  const right = { ledger, client: new Scripted() as unknown as SQSClient, queue: QUEUE, handler: () => undefined };
  new SqsConsumer(right);
  for (const wrong of [
    { queue: '' },
    { client: {} },
    { visibilityMs: 1_500 },
    { visibilityMs: 0 },
    { visibility: 60 },
  ]) {
    assert.throws(() => new SqsConsumer({ ...right, ...(wrong as object) }), InvalidField);
  }
});
