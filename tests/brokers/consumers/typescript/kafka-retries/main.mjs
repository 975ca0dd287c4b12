#!/usr/bin/env node
// A consumer of Kafka that copies a message that comes later to a topic: its partition goes on.
import { consume } from './consume-kafka.mjs';

await consume('orders.retry');
