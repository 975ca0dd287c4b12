import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { Client } from 'pg';
import { Claim } from '../src/claim.js';
import { durationOf } from '../src/core/world.js';
import { Doubtful, InvalidField, Retry, Terminal, isOfGuard } from '../src/errors.js';
import {
  type PostgresClient,
  type SqliteDatabase,
  Undecided,
  WrongRow,
  mysql,
  once,
  postgres,
  sqlite,
} from '../src/guard/index.js';
import { outcome } from '../src/outcome.js';
import { FakeWorld, holdOf } from './world.js';

function claimed(hold = 3_600_000): Claim {
  const world = new FakeWorld([]);
  world.clock = performance.now();
  const held = holdOf(world, { idempotencyKey: 'key', hold: durationOf(hold) });
  return new Claim(
    held,
    new AbortController().signal,
    () => Promise.resolve(outcome('ACK')),
    () => undefined,
  );
}

/** A client of `pg` over a script: what the first statement with a text does. */
class Scripted implements PostgresClient {
  readonly sent: string[] = [];
  ended = false;

  constructor(private readonly script: Record<string, () => { rowCount?: number; rows?: unknown[] }> = {}) {}

  query(text: string): Promise<{ rowCount: number; rows: unknown[] }> {
    const verb = text.split(' ')[0] ?? '';
    this.sent.push(verb);
    return Promise.resolve().then(() => ({ rowCount: 1, rows: [], ...this.script[verb]?.() }));
  }

  end(): Promise<void> {
    this.ended = true;
    return Promise.resolve();
  }
}

const fails = (code: string) => () => {
  throw Object.assign(new Error('of the database'), { code });
};
const none = () => ({ rowCount: 0 });

test('effect_is_had_between_the_guard_row_and_the_commit', async () => {
  const client = new Scripted();
  const result = await once(postgres(client), claimed(), async (given) => {
    await given.query('EFFECT');
    return 'r';
  });
  assert.equal(Buffer.from(result).toString(), 'r');
  assert.deepEqual(client.sent, ['BEGIN', 'INSERT', 'EFFECT', 'UPDATE', 'COMMIT']);
});

test('effect_that_was_had_is_not_repeated', async () => {
  const row = { consumer: 'c', source: Buffer.from('s'), id: 'i', result: Buffer.from('first') };
  const client = new Scripted({ INSERT: none, SELECT: () => ({ rows: [row] }) });
  const result = await once(postgres(client), claimed(), () => assert.fail('the effect was repeated'));
  assert.equal(Buffer.from(result).toString(), 'first');
  assert.deepEqual(client.sent, ['BEGIN', 'INSERT', 'SELECT', 'ROLLBACK']);
});

test('row_of_another_message_stops_everything', async () => {
  for (const row of [
    { consumer: 'c', source: 's', id: 'I', result: Buffer.from('x') },
    { consumer: 'c', source: 's', id: 'i', result: null },
  ]) {
    const client = new Scripted({ INSERT: none, SELECT: () => ({ rows: [row] }) });
    await assert.rejects(
      once(postgres(client), claimed(), () => 'r'),
      WrongRow,
    );
  }
  const gone = new Scripted({ UPDATE: none });
  await assert.rejects(
    once(postgres(gone), claimed(), () => 'r'),
    WrongRow,
  );
  assert.equal(gone.sent.at(-1), 'ROLLBACK');
  const deleted = new Scripted({ INSERT: none });
  await assert.rejects(
    once(postgres(deleted), claimed(), () => 'r'),
    Undecided,
  );
});

test('result_of_an_effect_is_what_a_handler_may_return', async () => {
  const empty = await once(postgres(new Scripted()), claimed(), () => undefined);
  assert.equal(empty.length, 0);
  const client = new Scripted();
  const refused = (error: unknown) =>
    error instanceof Retry && (error.cause as Error).message === 'result: must be bytes, text or nothing, not object';
  await assert.rejects(
    once(postgres(client), claimed(), () => ({}) as unknown as string),
    refused,
  );
  assert.equal(client.sent.at(-1), 'ROLLBACK');
});

test('missing_table_is_named', async () => {
  for (const [said, named] of [
    ['relation "effect_guard" does not exist', true],
    ['relation "payments" does not exist', false],
    ['canceling statement due to lock timeout, in relation "effect_guard"', false],
  ] as const) {
    const lacks = () => {
      throw Object.assign(new Error(said), { code: '42P01' });
    };
    const undecided = (error: unknown) =>
      error instanceof Undecided && isOfGuard(error) && /no table effect_guard/.test(error.message) === named;
    await assert.rejects(
      once(postgres(new Scripted({ INSERT: lacks })), claimed(), () => 'r'),
      undecided,
    );
  }
});

test('error_of_the_database_is_a_doubt', async () => {
  for (const [verb, code] of [
    ['INSERT', '55P03'],
    ['COMMIT', 'ECONNRESET'],
  ] as const) {
    const client = new Scripted({ [verb]: fails(code) });
    const doubt = (error: unknown) =>
      error instanceof Undecided && error instanceof Doubtful && error.reason === 'Error of the database';
    await assert.rejects(
      once(postgres(client), claimed(), () => 'r'),
      doubt,
    );
  }
});

test('closed_client_of_pg_is_a_doubt', async () => {
  const client = new Client();
  await client.end();
  await assert.rejects(
    once(postgres(client), claimed(), () => assert.fail('the effect was begun')),
    (error) => error instanceof Undecided && isOfGuard(error) && /not queryable/.test(String(error.cause)),
  );
  for (const said of ['Client has encountered a connection error and is not queryable', 'Query read timeout']) {
    const lost = () => {
      throw new Error(said);
    };
    await assert.rejects(
      once(postgres(new Scripted({ UPDATE: lost })), claimed(), () => 'r'),
      Undecided,
    );
  }
});

/** A new database of node:sqlite with the guard's table; `undefined` where this Node.js does not have it. */
function newDatabase(): SqliteDatabase | undefined {
  const name = 'node:sqlite'; // From 22.13 on: the types of the oldest version do not have it.
  try {
    const { DatabaseSync } = createRequire(__filename)(name) as { DatabaseSync: new (path: string) => SqliteDatabase };
    const database = new DatabaseSync(':memory:');
    database.exec(readFileSync(`${process.cwd()}/sql/sqlite.sql`, 'utf8'));
    return database;
  } catch (error) {
    if ((error as { code?: unknown }).code !== 'ERR_UNKNOWN_BUILTIN_MODULE') throw error;
    return undefined;
  }
}

test('closed_database_of_sqlite_is_a_doubt', async (t) => {
  const database = newDatabase();
  if (!database) {
    t.skip('this Node.js has no node:sqlite');
    return;
  }
  const closing = (given: SqliteDatabase) => {
    given.close();
    return 'r';
  };
  await assert.rejects(once(sqlite(database), claimed(), closing), Undecided);
  await assert.rejects(
    once(sqlite(database), claimed(), () => assert.fail('the effect was begun')),
    (error) => error instanceof Undecided && /database is not open/.test(String(error.cause)),
  );
});

test('closed_database_of_better_sqlite3_is_a_doubt', async () => {
  const fails = () => {
    throw new TypeError('The database connection is not open');
  };
  const database = { inTransaction: false, prepare: fails, exec: fails, close: () => undefined };
  await assert.rejects(
    once(sqlite(database), claimed(), () => assert.fail('the effect was begun')),
    (error) => error instanceof Undecided && error.cause instanceof TypeError,
  );
});

test('open_transaction_of_sqlite_is_refused_and_stays_open', async (t) => {
  const database = newDatabase();
  if (!database) {
    t.skip('this Node.js has no node:sqlite');
    return;
  }
  database.exec('BEGIN');
  await assert.rejects(
    once(sqlite(database), claimed(), () => 'r'),
    InvalidField,
  );
  assert.ok(database.isTransaction);
});

test('error_of_the_effect_did_not_happen_after_a_rollback', async () => {
  const client = new Scripted();
  const cause = new RangeError('card 4111');
  const retry = (error: unknown) => error instanceof Retry && error.reason === 'RangeError' && error.cause === cause;
  await assert.rejects(
    once(postgres(client), claimed(), () => Promise.reject(cause)),
    retry,
  );
  assert.deepEqual(client.sent, ['BEGIN', 'INSERT', 'ROLLBACK']);
  for (const steering of [new Terminal(), Terminal]) {
    const effect = () => {
      throw steering as Error; // Also the class itself, without new.
    };
    await assert.rejects(once(postgres(new Scripted()), claimed(), effect), Terminal);
  }
});

test('connection_that_cannot_roll_back_is_closed', async () => {
  const client = new Scripted({ INSERT: fails('57P01'), ROLLBACK: fails('ECONNRESET') });
  await assert.rejects(
    once(postgres(client), claimed(), () => 'r'),
    Undecided,
  );
  assert.ok(client.ended);
});

test('nothing_begins_after_the_hold', async () => {
  const client = new Scripted();
  await assert.rejects(
    once(postgres(client), claimed(0), () => 'r'),
    Undecided,
  );
  assert.deepEqual(client.sent, []);
});

test('pools_and_open_transactions_are_refused', async () => {
  assert.throws(() => postgres(Object.assign(new Scripted(), { totalCount: 1 })), InvalidField);
  const open = Object.assign(new Scripted(), { getTransactionStatus: () => 'T' });
  await assert.rejects(
    once(postgres(open), claimed(), () => 'r'),
    InvalidField,
  );
  const query = () => Promise.resolve([{ affectedRows: 0 }, undefined] as [unknown, unknown]);
  assert.throws(() => mysql({ query, getConnection: () => undefined }), InvalidField);
  for (const serverStatus of [1 | 2, 0]) {
    const sent: string[] = [];
    const connection = {
      config: { charsetNumber: 45 },
      query: (sql: string) => {
        sent.push(sql);
        return Promise.resolve([{ affectedRows: 0, serverStatus }, undefined] as [unknown, unknown]);
      },
    };
    await assert.rejects(
      once(mysql(connection), claimed(), () => 'r'),
      InvalidField,
    );
    assert.equal(sent.length, 1);
  }
});

/** A connection of `mysql2` whose session has this charset. */
function sessionOf(charsetNumber: number | undefined, row: unknown) {
  const sent: string[] = [];
  const query = (sql: string) => {
    sent.push(sql);
    const answer = sql.startsWith('SELECT') ? [row] : { affectedRows: 1, serverStatus: 2 };
    return Promise.resolve([answer, undefined] as [unknown, unknown]);
  };
  return { sent, connection: { config: { charsetNumber }, query } };
}

test('connection_of_mysql_that_is_not_utf8mb4_is_refused_before_the_transaction', async () => {
  // latin1, cp1251, utf8mb3, binary: by the driver alone, since it encodes by them.
  for (const number of [8, 14, 33, 63, 192, 248]) {
    const { sent, connection } = sessionOf(number, { '@@character_set_client': 'utf8mb4' });
    await assert.rejects(
      once(mysql(connection), claimed(), () => assert.fail('the effect was begun')),
      (error) => error instanceof InvalidField && error.field === 'connection' && /utf8mb4/.test(error.bound),
    );
    assert.deepEqual(sent, []);
  }
  for (const number of [45, 46, 224, 246, 255, 309]) {
    const { sent, connection } = sessionOf(number, undefined);
    await once(mysql(connection), claimed(), () => 'r');
    assert.match(sent[0] ?? '', /^SET SESSION/);
  }
});

test('charset_of_mysql_that_the_driver_does_not_name_is_asked_of_the_database', async () => {
  // 2304 is a collation of MariaDB.
  for (const [number, row, right] of [
    [undefined, { '@@character_set_client': 'utf8mb4' }, true],
    [2_304, ['utf8mb4'], true],
    [undefined, { '@@character_set_client': 'latin1' }, false],
    [undefined, { '@@character_set_client': 'utf8mb3' }, false],
    [undefined, undefined, false],
  ] as const) {
    const { sent, connection } = sessionOf(number, row);
    const done = once(mysql(connection), claimed(), () => 'r');
    if (right) await done;
    else await assert.rejects(done, InvalidField);
    assert.deepEqual([sent[0], sent.length > 1], ['SELECT @@character_set_client', right]);
  }
  const lost = () => Promise.reject(Object.assign(new Error('lost'), { code: 'PROTOCOL_CONNECTION_LOST' }));
  await assert.rejects(
    once(mysql({ query: lost }), claimed(), () => 'r'),
    Undecided,
  );
});

test('tables_are_those_of_the_other_packages', () => {
  for (const name of ['postgres', 'mysql', 'sqlite']) {
    const [ours, theirs] = ['sql', '../python/src/idempotency_ledger/guard'].map((folder) =>
      readFileSync(`${process.cwd()}/${folder}/${name}.sql`, 'utf8'),
    );
    assert.equal(ours, theirs);
  }
});
