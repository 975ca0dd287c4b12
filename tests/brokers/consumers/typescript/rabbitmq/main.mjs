#!/usr/bin/env node
// A consumer of RabbitMQ.
import { QueueConsumer } from '@idempotency-ledger/client/rabbitmq';
import { connect } from 'amqplib';
import { broker, ledger, paid, stop } from './handler.mjs';

const connection = await connect(broker);
const handler = (claim, message) => paid(claim, message.content);
await new QueueConsumer({ ledger, connection, queue: 'orders', handler, concurrency: 4 }).run(stop.signal);
await ledger.close();
await connection.close();
