#!/usr/bin/env node
// A consumer of NATS JetStream.
import { JetStreamConsumer, toSubject } from '@idempotency-ledger/client/nats';
import { jetstream } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import { broker, ledger, paid, stop } from './handler.mjs';

const connection = await connect({ servers: broker });
const stream = jetstream(connection);
const consumer = await stream.consumers.get('ORDERS', 'payments');
const handler = (claim, message) => paid(claim, message.data);
const deadLetter = toSubject(stream, 'dead');
await new JetStreamConsumer({ ledger, consumer, handler, deadLetter, concurrency: 4 }).run(stop.signal);
await ledger.close();
await connection.drain();
