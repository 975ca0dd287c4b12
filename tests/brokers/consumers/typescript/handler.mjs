// What each consumer in TypeScript does with a message: an effect in three sinks, or a failure of a poisonous one. The sinks
// are those of examples/consumer/sinks.py.
import { DatabaseSync } from 'node:sqlite';
import { parseArgs } from 'node:util';
import { setTimeout as pause } from 'node:timers/promises';
import { Ledger, Retry, Shutdown } from '@idempotency-ledger/client';

const EFFECT = 20; // milliseconds: long enough for a kill to hit it; a message may say another time
const SCHEMA = `
CREATE TABLE IF NOT EXISTS plain (id TEXT);
CREATE TABLE IF NOT EXISTS fenced (id TEXT PRIMARY KEY, token INTEGER);
CREATE TABLE IF NOT EXISTS refused (id TEXT, token INTEGER);
CREATE TABLE IF NOT EXISTS deduplicating (key TEXT PRIMARY KEY, id TEXT);
`;

const text = { type: 'string' };
const { values } = parseArgs({ options: { broker: text, ledger: text, sinks: text } });
export const { broker } = values;

// Made before the first message; from then on the test may ask the process to stop.
export const stop = new Shutdown({ graceMs: 10_000 });
console.log(`${process.pid} consumes`);

export const ledger = new Ledger({ consumer: 'payments', endpoint: values.ledger });

const database = new DatabaseSync(values.sinks);
database.exec(`PRAGMA busy_timeout = 10000; ${SCHEMA}`);
const write = (statement, ...given) => database.prepare(statement).run(...given).changes;

/** Milliseconds until the broker gives to another consumer what this one holds: its session, or the acknowledgement wait. */
export const waitMs = Math.round(1_000 * Number(process.env.BROKER_WAIT));

/** Has the effect of a message. */
export async function paid(claim, body) {
  const event = JSON.parse(Buffer.from(body).toString());
  if (event.type === 'poison') throw new Retry('this message cannot be processed');
  write('INSERT INTO plain VALUES (?)', event.id);
  await pause(event.takes || EFFECT);
  const written = write(
    'INSERT INTO fenced VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET token = excluded.token WHERE excluded.token >= token',
    event.id,
    claim.token,
  );
  if (written === 0) write('INSERT INTO refused VALUES (?, ?)', event.id, claim.token);
  write('INSERT OR IGNORE INTO deduplicating VALUES (?, ?)', claim.idempotencyKey, event.id);
  await pause(EFFECT);
  return 'done';
}
