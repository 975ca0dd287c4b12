import { InvalidField } from '../errors.js';
import { sleep } from '../timing.js';

/** Milliseconds that a statement waits for a row of another transaction: far shorter than a lease. */
const LOCK_WAIT = 2_000;
/** Milliseconds after which the server ends a statement, or the transaction of a process that stands still. */
const SILENCE = 10_000;
const PAUSE = 25; // milliseconds between two tries to get the lock of SQLite

/** A row of the guard: consumer, source, id, result. */
export type GuardRow = readonly [unknown, unknown, unknown, unknown];

/** One connection, by which nothing else writes; made by `postgres`, `mysql` or `sqlite`. */
export interface Place<C> {
  /** What an effect is given. */
  readonly connection: C;
  /**
   * Throws {@link InvalidField} where the guard could not be the first and only one to use a transaction, or would send names
   * in other bytes. @internal
   */
  check(): Promise<void>;
  /** Bounds every wait, and begins the transaction. @internal */
  begin(): Promise<void>;
  /** False where the key was there: nothing was written then, and the transaction goes on. @internal */
  insertNew(sql: string, values: readonly string[]): Promise<boolean>;
  /** The number of rows that a statement has changed. @internal */
  changed(sql: string, values: readonly unknown[]): Promise<number>;
  /** The first row. @internal */
  row(sql: string, values: readonly unknown[]): Promise<GuardRow | undefined>;
  /** Commits; an error leaves it unknown whether it did. @internal */
  commit(): Promise<void>;
  /** Ends what is open. A connection that cannot do that is closed, so that the server rolls back. @internal */
  rollBack(): Promise<void>;
  /** An error of the database, rather than of the effect. @internal */
  isError(error: unknown): boolean;
}

/** What `pg` answers to a statement. */
export interface PostgresResult {
  /** The number of rows that were changed or read. */
  readonly rowCount: number | null;
  /** The rows that were read. */
  readonly rows: unknown[];
}

/** A client of `pg`: one of a pool, or one by itself. */
export interface PostgresClient {
  /** Sends a statement. */
  query(text: string, values?: unknown[]): Promise<PostgresResult>;
  /** `I` outside of a transaction. Older versions of `pg` do not have it: then an open transaction is not found out. */
  getTransactionStatus?(): string | null;
  /** Closes the connection. */
  end?(): Promise<void>;
}

/** A connection of `mysql2/promise`. */
export interface MysqlConnection {
  /** Sends a statement. */
  query(sql: string, values?: unknown[]): Promise<[unknown, unknown]>;
  /** Closes the connection immediately. */
  destroy?(): void;
  /** Its options. */
  readonly config?: {
    /** The collation by whose charset mysql2 encodes text. */
    readonly charsetNumber?: number | undefined;
  };
}

/** A prepared statement of SQLite. */
export interface SqliteStatement {
  /** Runs it with these values. */
  run(...values: never[]): SqliteChanges;
  /** The first row; `undefined` without one. */
  get(...values: never[]): unknown;
}

/** What a statement of SQLite has changed. */
export interface SqliteChanges {
  /** The number of rows. */
  readonly changes: number | bigint;
}

/** A database of `better-sqlite3`, or a `DatabaseSync` of `node:sqlite`. */
export interface SqliteDatabase {
  /** A statement. */
  prepare(sql: string): SqliteStatement;
  /** Runs statements without values. */
  exec(sql: string): unknown;
  /** Closes the file. */
  close(): unknown;
  /** A transaction is open, by better-sqlite3. */
  readonly inTransaction?: boolean;
  /** A transaction is open, by node:sqlite. */
  readonly isTransaction?: boolean;
}

function textOf(error: unknown, name: string): string {
  const found: unknown = (error as Record<string, unknown> | null | undefined)?.[name];
  return typeof found === 'string' ? found : '';
}

/** The connection is gone; by the error codes of Node.js. */
const isGone = (error: unknown): boolean => /^(E[A-Z]+|PROTOCOL_\w+)$/.test(textOf(error, 'code'));

function refusePool(connection: object, mark: string): void {
  if (mark in connection) throw new InvalidField('connection', 'is a pool: a transaction needs one connection of it');
}

const OPEN = new InvalidField('connection', 'has an open transaction: the guard row must be its first statement');

// eslint-disable-next-line @typescript-eslint/require-await -- what `isOpen` throws must reject
async function checked(isOpen: () => boolean): Promise<void> {
  if (isOpen()) throw OPEN;
}

/**
 * A client of `pg` for the guard. READ COMMITTED: a conflict is seen and then read, though it was committed after this
 * transaction began. The bounds of waits hold for the guard's transaction alone.
 */
export function postgres<C extends PostgresClient>(connection: C): Place<C> {
  refusePool(connection, 'totalCount');
  const numbered = (sql: string): string => {
    let at = 0;
    return sql.replace(/\?/g, () => `$${(at += 1)}`);
  };
  const changed = async (sql: string, values: readonly unknown[]) =>
    (await connection.query(numbered(sql), [...values])).rowCount ?? 0;
  let open = false;
  return {
    connection,
    check: () => checked(() => (connection.getTransactionStatus?.() ?? 'I') !== 'I'),
    async begin() {
      open = true;
      await connection.query(
        `BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = ${LOCK_WAIT};` +
          ` SET LOCAL statement_timeout = ${SILENCE}; SET LOCAL idle_in_transaction_session_timeout = ${SILENCE}`,
      );
    },
    async insertNew(sql, values) {
      return (await changed(`${sql} ON CONFLICT (idempotency_key, replay_run) DO NOTHING`, values)) === 1;
    },
    changed,
    async row(sql, values) {
      const { rows } = await connection.query(numbered(sql), [...values]);
      return rowOf(rows[0]);
    },
    async commit() {
      await connection.query('COMMIT');
      open = false;
    },
    async rollBack() {
      if (!open) return;
      open = false;
      try {
        await connection.query('ROLLBACK');
      } catch {
        await connection.end?.().catch(() => undefined);
      }
    },
    isError: (error) =>
      isGone(error) ||
      /^[0-9A-Z]{5}$/.test(textOf(error, 'code')) ||
      // What pg says by itself has no code: of a client that was closed or lost, and of its query_timeout.
      /connection|not queryable|query read timeout/i.test(textOf(error, 'message').slice(0, 100)),
  };
}

const AUTOCOMMIT = 2; // SERVER_STATUS_AUTOCOMMIT of the protocol
const IN_TRANSACTION = 1; // SERVER_STATUS_IN_TRANS
const DUPLICATE = 'ER_DUP_ENTRY';
const UTF8MB4 = 'utf8mb4';

/** Whether a collation is of utf8mb4, by its number; `undefined` if only the database knows: MariaDB has more of them. */
function isUtf8mb4(collation: number | undefined): boolean | undefined {
  if (collation === undefined || collation > 309) return undefined;
  return collation === 45 || collation === 46 || (collation >= 224 && collation <= 247) || collation >= 255;
}

/**
 * A connection of `mysql2/promise` for the guard alone, with its defaults of `autocommit` and of `charset` (utf8mb4): the bounds of waits stay in its
 * session. A plain INSERT, whose error for a duplicate ends the statement alone: INSERT IGNORE would hide values that are
 * cut, and the count of ON DUPLICATE KEY UPDATE depends on a flag of the connection.
 */
export function mysql<C extends MysqlConnection>(connection: C): Place<C> {
  refusePool(connection, 'getConnection');
  const head = async (sql: string, values?: unknown[]) => {
    const [result] = await connection.query(sql, values);
    return result as { affectedRows: number; serverStatus?: number };
  };
  let open = false;
  return {
    connection,
    async check() {
      // Once the session's character_set_client changes, mysql2 encodes by that, and has its number here.
      const known = isUtf8mb4(connection.config?.charsetNumber);
      if (known ?? (await charsetOf(connection)) === UTF8MB4) return;
      throw new InvalidField('connection', 'must use UTF-8, in MySQL utf8mb4: names are compared as bytes');
    },
    async begin() {
      // A name that is too long is an error, and not cut.
      const { serverStatus = AUTOCOMMIT } = await head(
        `SET SESSION innodb_lock_wait_timeout = ${LOCK_WAIT / 1_000},` +
          " SESSION sql_mode = CONCAT(@@SESSION.sql_mode, ',STRICT_ALL_TABLES')",
      );
      if (serverStatus & IN_TRANSACTION) throw OPEN;
      if (!(serverStatus & AUTOCOMMIT)) {
        throw new InvalidField('connection', 'must commit by itself: only the guard begins and ends a transaction');
      }
      await head('SET TRANSACTION ISOLATION LEVEL READ COMMITTED');
      open = true;
      await head('START TRANSACTION');
    },
    async insertNew(sql, values) {
      try {
        await head(sql, [...values]);
        return true;
      } catch (error) {
        if (textOf(error, 'code') !== DUPLICATE) throw error;
        return false;
      }
    },
    changed: async (sql, values) => (await head(sql, [...values])).affectedRows,
    async row(sql, values) {
      const [rows] = await connection.query(sql, [...values]);
      return rowOf((rows as unknown[])[0]);
    },
    async commit() {
      await head('COMMIT');
      open = false;
    },
    async rollBack() {
      if (!open) return;
      open = false;
      try {
        await head('ROLLBACK');
      } catch {
        connection.destroy?.();
      }
    },
    isError: (error) =>
      isGone(error) || textOf(error, 'sqlState') !== '' || /closed state/.test(textOf(error, 'message')),
  };
}

/** The charset in which the database takes the text of this connection to be. */
async function charsetOf(connection: MysqlConnection): Promise<unknown> {
  const [rows] = await connection.query('SELECT @@character_set_client');
  return Object.values((rows as object[])[0] ?? {})[0]; // Also where a row is an array: `rowsAsArray`.
}

const BUSY = 5; // SQLITE_BUSY

/**
 * A database of `better-sqlite3` or `node:sqlite` for the guard alone. BEGIN IMMEDIATE: the one lock of writers is taken, or
 * waited for without blocking the event loop, before anything is read.
 */
export function sqlite<C extends SqliteDatabase>(connection: C): Place<C> {
  const isOpen = () => connection.inTransaction ?? connection.isTransaction ?? false;
  const changed = (sql: string, values: readonly unknown[]) =>
    Promise.resolve(Number(connection.prepare(sql).run(...(values as never[])).changes));
  const busy = (error: unknown) =>
    textOf(error, 'code').startsWith('SQLITE_BUSY') || (error as { errcode?: unknown }).errcode === BUSY;
  return {
    connection,
    check: () => checked(isOpen),
    async begin() {
      // A wait of SQLite itself would block the event loop, and so the renewal of leases.
      connection.exec('PRAGMA busy_timeout = 0');
      const until = performance.now() + LOCK_WAIT;
      for (;;) {
        try {
          connection.exec('BEGIN IMMEDIATE');
          return;
        } catch (error) {
          if (!busy(error) || performance.now() >= until) throw error;
        }
        await sleep(PAUSE);
      }
    },
    async insertNew(sql, values) {
      return (await changed(`${sql} ON CONFLICT (idempotency_key, replay_run) DO NOTHING`, values)) === 1;
    },
    changed,
    row: (sql, values) => Promise.resolve(rowOf(connection.prepare(sql).get(...(values as never[])))),
    commit() {
      connection.exec('COMMIT');
      return Promise.resolve();
    },
    rollBack() {
      try {
        if (isOpen()) connection.exec('ROLLBACK');
      } catch {
        try {
          connection.close();
        } catch {
          // The effect has closed it, which rolls back.
        }
      }
      return Promise.resolve();
    },
    // Of a database that is closed node:sqlite reports ERR_INVALID_STATE, as of streams; better-sqlite3 a TypeError.
    isError: (error) =>
      /^(SQLITE_|ERR_SQLITE)/.test(textOf(error, 'code')) ||
      /\bdatabase (connection )?is not open\b/.test(textOf(error, 'message').slice(0, 100)),
  };
}

function rowOf(found: unknown): GuardRow | undefined {
  if (typeof found !== 'object' || found === null) return undefined;
  const { consumer, source, id, result } = found as Record<string, unknown>;
  return [consumer, source, id, result];
}
