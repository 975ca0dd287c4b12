#!/usr/bin/env node
// A consumer of a queue that speaks the protocol of SQS.
import { SqsConsumer } from '@idempotency-ledger/client/sqs';
import { GetQueueUrlCommand, SQSClient } from '@aws-sdk/client-sqs';
import { broker, ledger, paid, stop, waitMs } from './handler.mjs';

const credentials = { accessKeyId: 'test', secretAccessKey: 'test' };
const client = new SQSClient({ endpoint: broker, region: 'eu-central-1', credentials });
const urlOf = async (name) => (await client.send(new GetQueueUrlCommand({ QueueName: name }))).QueueUrl;
await new SqsConsumer({
  ledger,
  client,
  queue: await urlOf('orders'),
  handler: (claim, message) => paid(claim, Buffer.from(message.Body)),
  visibilityMs: waitMs,
  deadLetters: await urlOf('dead.fifo'),
  concurrency: 4,
}).run(stop.signal);
await ledger.close();
