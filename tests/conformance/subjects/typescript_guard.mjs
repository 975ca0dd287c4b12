// A subject whose effect is a row in a SQL database, behind the package's guard: the step `effect` is its transaction.
import { writeSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const PACKAGE = process.env.LEDGER_PACKAGE;
const packages = createRequire(join(PACKAGE, 'package.json'));
const entry = (name) => import(pathToFileURL(join(PACKAGE, 'dist', name)).href);
const il = await entry('index.mjs');
const guard = await entry('guard/index.mjs');
const url = process.env.DATABASE_URL;
const ledgers = new Map();
const early = new Set();
const waiting = new Map();

const say = (event, fields = {}) => writeSync(1, `${JSON.stringify({ event, ...fields })}\n`);

/** Waits until the scenario lets a call go on. */
function until(call) {
  if (early.delete(call)) return Promise.resolve();
  return new Promise((resolve) => waiting.set(call, resolve));
}

// Node.js has it from 22.13 on; tests/lib/clients/typescript.sh installs one that has it.
const sqlite = url.startsWith('sqlite:') ? await import('node:sqlite') : undefined;

/** A place for the guard alone; how an effect writes to it; how it is closed. */
async function connect() {
  const insert = (marks) => `INSERT INTO payments (receipt, source, id, amount) VALUES (${marks})`;
  if (sqlite) {
    const database = new sqlite.DatabaseSync(new URL(url).pathname);
    const pay = (given, values) => given.prepare(insert('?, ?, ?, ?')).run(...values);
    return { place: guard.sqlite(database), pay, close: () => database.close() };
  }
  if (url.startsWith('mysql:')) {
    const { username, pathname, search } = new URL(url.replace(/@\//, '@localhost/'));
    const socketPath = new URLSearchParams(search).get('unix_socket');
    const options = { user: username, database: pathname.slice(1), socketPath };
    const connection = await packages('mysql2/promise').createConnection(options);
    const pay = (given, values) => given.query(insert('?, ?, ?, ?'), values);
    return { place: guard.mysql(connection), pay, close: () => connection.destroy() };
  }
  const client = new (packages('pg').Client)({ connectionString: url });
  client.on('error', () => undefined); // A connection that is lost between two statements.
  await client.connect();
  const pay = (given, values) => given.query(insert('$1, $2, $3, $4'), values);
  return { place: guard.postgres(client), pay, close: () => client.end() };
}

async function deliver({ ledger, call, id, wait }) {
  const receipt = `${call}-${process.pid}`;
  const handler = async (claim) => {
    const { token, attempt, idempotencyKey, effectUnknown } = claim;
    const named = { call, token: String(token), idempotency_key: idempotencyKey };
    say('started', { ...named, attempt, effect_unknown: effectUnknown, checkpoint: '' });
    const { place, pay, close } = await connect();
    try {
      return await guard.once(place, claim, async (connection) => {
        await pay(connection, [receipt, 'shop', id, 1]);
        say('effect', { call, id, token: '0', idempotency_key: id }); // Amid the transaction.
        await until(call);
        return receipt;
      });
    } finally {
      await close();
    }
  };
  try {
    const options = { waitMs: (wait ?? 0) * 1000 };
    const outcome = await ledgers.get(ledger).process(il.Key.of('shop', id), handler, options);
    const { advice, delayMs, result, replayed, resultDropped, effectUnknown, reason = null } = outcome;
    const text = result ? Buffer.from(result).toString() : null;
    const said = { call, advice, delay: delayMs / 1000, result: text, reason, replayed };
    say('outcome', { ...said, result_dropped: resultDropped, effect_unknown: effectUnknown });
  } catch (error) {
    say('error', { call, error: error.name, field: error.field ?? '', text: error.message });
  }
}

const lines = createInterface({ input: process.stdin });
lines.on('line', (line) => {
  const command = JSON.parse(line);
  const { call } = command;
  if (command.do === 'open') {
    ledgers.set(command.ledger, new il.Ledger({ consumer: command.consumer, endpoint: command.endpoint }));
    say('opened');
  } else if (command.do === 'process') {
    void deliver(command);
  } else if (command.do === 'go') {
    if (waiting.has(call)) waiting.get(call)();
    else early.add(call);
  }
});
lines.on('close', () => process.exit(0));
say('ready');
