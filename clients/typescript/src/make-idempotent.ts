import { NoResult } from './errors.js';
import type { Key } from './key.js';
import { type Names, checkNames } from './known-options.js';
import type { Ledger } from './ledger.js';
import type { Outcome } from './outcome.js';

/** How a function's value becomes the bytes that the ledger stores, and how they are read back. */
export interface Codec<T> {
  /** The bytes of a value. Where it throws, the message is completed without a result. */
  encode(value: T): Uint8Array;
  /** The value of these bytes. */
  decode(bytes: Uint8Array): T;
}

/** What {@link makeIdempotent} takes. */
export interface IdempotentOptions<A extends readonly unknown[], R> {
  /** The client whose consumer processes. */
  ledger: Ledger;
  /** The key of a call, by its arguments. */
  key: (...args: A) => Key;
  /** What must be the same in a repeated call, as bytes. By default nothing is compared. */
  body?: ((...args: A) => Uint8Array) | undefined;
  /** How values are stored; by default as JSON: a repeat gets what JSON keeps of the first value. */
  codec?: Codec<R> | undefined;
  /** For how many milliseconds a call waits while another one runs, 0 (default) to 1 hour. */
  waitMs?: number | undefined;
}

const OPTIONS: Names<IdempotentOptions<readonly unknown[], unknown>> = {
  ledger: true,
  key: true,
  body: true,
  codec: true,
  waitMs: true,
};

/** `undefined` is stored as no bytes: JSON has no text for it. */
const JSON_CODEC: Codec<unknown> = {
  encode: (value) => (value === undefined ? new Uint8Array() : Buffer.from(JSON.stringify(value))),
  decode: (bytes) => (bytes.length === 0 ? undefined : (JSON.parse(Buffer.from(bytes).toString()) as unknown)),
};

/**
 * The function with one effect for each key: a repeated call returns the value of the first one.
 *
 * Rejects with the error of the function itself, and with `NoResult` where the call has no result: its `outcome` says why.
 */
export function makeIdempotent<A extends readonly unknown[], R>(
  fn: (...args: A) => Promise<R> | R,
  options: IdempotentOptions<A, R>,
): (...args: A) => Promise<R> {
  checkNames(options, OPTIONS, 'makeIdempotent');
  const { ledger, waitMs, body } = options;
  const codec = options.codec ?? (JSON_CODEC as Codec<R>);
  const once = async (...args: A): Promise<R> => {
    const handler = async () => {
      const value = await fn(...args);
      try {
        return codec.encode(value);
      } catch {
        return UNENCODED as unknown as Uint8Array; // It is left out and logged, and the call completes all the same.
      }
    };
    const outcome = await ledger.process(options.key(...args), handler, { body: body?.(...args), waitMs });
    return codec.decode(resultOf(outcome));
  };
  Object.defineProperty(once, 'name', { value: fn.name });
  return once;
}

/** Stands for a value that cannot be encoded. */
const UNENCODED = Symbol('unencoded');

function resultOf(outcome: Outcome): Uint8Array {
  if (outcome.error !== undefined) throw outcome.error as Error;
  if (outcome.result === undefined || (outcome.resultDropped && outcome.replayed)) throw new NoResult(outcome);
  return outcome.result;
}
