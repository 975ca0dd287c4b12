#!/usr/bin/env node
// A consumer of Kafka: a message that comes later stops its partition.
import { consume } from './consume-kafka.mjs';

await consume(undefined);
