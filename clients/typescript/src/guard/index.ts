/**
 * An effect that is rows in your own SQL database, once: a guard row and the effect commit together, or not at all.
 *
 * `once` is called inside of a handler. The table `effect_guard` is made by `sqlite.sql`, `postgres.sql` or `mysql.sql` of the
 * folder `sql` of the package, in the database that the effects are in. `docs/effects.md` of the ledger has the reasons, and
 * what a guard does not promise: nothing outside of that database, and nothing after the guard row was deleted.
 *
 * @packageDocumentation
 */
import type { Claim, Result } from '../claim.js';
import { endingOf } from '../core/delivery.js';
import { Doubtful, InvalidField, Retry, Steer, errorOf, markOfGuard, typeName } from '../errors.js';
import type { Place } from './dialects.js';

export {
  type MysqlConnection,
  type Place,
  type PostgresClient,
  type PostgresResult,
  type SqliteChanges,
  type SqliteDatabase,
  type SqliteStatement,
  mysql,
  postgres,
  sqlite,
} from './dialects.js';

const INSERT =
  'INSERT INTO effect_guard (idempotency_key, replay_run, consumer, source, id, token) VALUES (?, ?, ?, ?, ?, ?)';
const KEEP = 'UPDATE effect_guard SET result = ? WHERE idempotency_key = ? AND replay_run = ?';
const READ = 'SELECT consumer, source, id, result FROM effect_guard WHERE idempotency_key = ? AND replay_run = ?';

/**
 * It is unknown here whether the effect happened, and the next attempt learns it from the guard.
 *
 * Do not catch it: nothing is settled, and the message is delivered again.
 */
export class Undecided extends Doubtful {
  /** The name of the class. */
  override readonly name = 'Undecided';
}

/**
 * The guard row is that of another message, has no result, or is gone: something else writes the table, names are cut or
 * folded, or the effect has ended the guard's transaction. Nothing is settled; stop, and let a person look.
 */
export class WrongRow extends Doubtful {
  /** The name of the class. */
  override readonly name = 'WrongRow';
}

/**
 * Has the effect unless an attempt has had it before; resolves to the result of the attempt that had it.
 *
 * `place`: `postgres(client)`, `mysql(connection)` or `sqlite(database)` of a connection for the guard alone, outside of a
 * transaction; `InvalidField` where it is not that. One that was lost is closed: take another one for the next message.
 * `effect` is given the connection as the driver made it, writes by nothing else, neither begins nor ends a transaction,
 * catches no error of the database, and returns the result: bytes, text or nothing.
 *
 * Throws `Undecided` and `WrongRow`. What the effect throws is thrown after a rollback, so that it has certainly not happened:
 * steering errors as they are, any other one as the cause of a `Retry`. An error that became a `Retry` or an `Undecided` is
 * logged by its type.
 */
export async function once<C>(
  place: Place<C>,
  claim: Claim,
  effect: (connection: C) => Promise<Result> | Result,
): Promise<Uint8Array> {
  try {
    await place.check();
    try {
      return await transaction(place, claim, effect);
    } finally {
      await place.rollBack();
    }
  } catch (error) {
    // A wait that was too long, a deadlock, a lost connection, a COMMIT without an answer.
    if (error instanceof Undecided || error instanceof WrongRow) throw markOfGuard(error);
    if (error instanceof Steer || error instanceof InvalidField || !place.isError(error)) throw error;
    const missing =
      isNoTable(error) &&
      'the database has no table effect_guard; run the file of its kind of sql/ of the package in it';
    throw markOfGuard(new Undecided(missing || `${typeName(error)} of the database`, { cause: error }));
  }
}

async function transaction<C>(
  place: Place<C>,
  claim: Claim,
  effect: (connection: C) => Promise<Result> | Result,
): Promise<Uint8Array> {
  // Until then an older attempt may begin, and its guard row is kept; later it may have been deleted.
  if (performance.now() >= claim.holdUntil) throw new Undecided('the hold of the claim is over');
  await place.begin();
  const { consumer, source, id, replayRun } = claim.key;
  const row = [claim.idempotencyKey, replayRun] as const;
  // The first statement. While another transaction has the row and did not commit, it waits: not for ever.
  if (!(await place.insertNew(INSERT, [...row, consumer, source, id, String(claim.token)]))) {
    return doneBefore(place, row, [consumer, source, id]);
  }
  const result = await had(place, effect);
  if ((await place.changed(KEEP, [result, ...row])) !== 1) {
    throw new WrongRow("the guard row is gone: the effect has ended the guard's transaction");
  }
  await place.commit();
  return result;
}

async function had<C>(place: Place<C>, effect: (connection: C) => Promise<Result> | Result): Promise<Uint8Array> {
  try {
    const returned = await effect(place.connection);
    const ending = endingOf(returned);
    if ('result' in ending && !ending.leftOut) return Buffer.from(ending.result); // Not every driver takes a Uint8Array.
    throw new InvalidField('result', `must be bytes, text or nothing, not ${typeof returned}`);
  } catch (thrown) {
    const error = errorOf(thrown);
    if (error instanceof Steer || place.isError(error)) throw error;
    throw markOfGuard(new Retry(typeName(error), { cause: error }));
  }
}

/** The result of the attempt that had the effect, if the guard row is that of this very message. */
async function doneBefore(
  place: Place<unknown>,
  row: readonly [string, string],
  names: readonly string[],
): Promise<Uint8Array> {
  const found = await place.row(READ, row);
  if (!found) throw new Undecided('the guard row was deleted this very moment');
  const [consumer, source, id, result] = found.map(bytesOf);
  if (![consumer, source, id].every((name, at) => name?.equals(Buffer.from(names[at] ?? '')))) {
    throw new WrongRow('the guard row is that of another message');
  }
  if (!result) throw new WrongRow('the guard row has no result: it was committed without its effect');
  return result;
}

/** Whether the database says that it has no table `effect_guard`: SQLite, Postgres, or MySQL and MariaDB. */
function isNoTable(error: unknown): boolean {
  const text = error instanceof Error ? error.message : '';
  return text.includes('effect_guard') && /no such table|does not exist|doesn't exist/.test(text);
}

function bytesOf(value: unknown): Buffer | undefined {
  if (typeof value === 'string') return Buffer.from(value);
  return value instanceof Uint8Array ? Buffer.from(value) : undefined;
}
