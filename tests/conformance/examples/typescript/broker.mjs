// Stands for a broker in the first example of clients/typescript/README.md: the scenario delivers, and sees what becomes
// of the message.
import { writeSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { setTimeout } from 'node:timers/promises';

const messages = [];
const early = new Map();
const waiting = new Map();
let arrived = () => undefined;

export const say = (event, fields = {}) => writeSync(1, `${JSON.stringify({ event, ...fields })}\n`);

/** Waits until the scenario lets a call go on. */
export function until(call) {
  if (early.delete(call)) return Promise.resolve();
  return new Promise((resolve) => waiting.set(call, resolve));
}

/** The next message; `undefined` where none arrives in time. */
export async function receive({ timeoutMs }) {
  if (messages.length === 0) {
    const over = new AbortController();
    arrived = () => over.abort();
    await setTimeout(timeoutMs, undefined, { signal: over.signal }).catch(() => undefined);
  }
  return messages.shift();
}

function delivered({ call, id }) {
  const done = (advice, delay) => say('outcome', { call, advice, delay, reason: null });
  return {
    id,
    body: Buffer.from(id),
    ack: async () => done('ACK', 0),
    deadLetter: async () => done('DEAD_LETTER', 0),
    retry: async ({ afterMs }) => done('RETRY_LATER', afterMs / 1000),
  };
}

const lines = createInterface({ input: process.stdin });
lines.on('line', (line) => {
  const command = JSON.parse(line);
  if (command.do === 'process') {
    messages.push(delivered(command));
    arrived();
  } else if (command.do === 'go') {
    const go = waiting.get(command.call);
    waiting.delete(command.call);
    if (go) go();
    else early.set(command.call, true);
  }
});
process.stdin.unref();
say('ready');
