import type { Outcome } from './outcome.js';

/** The base of what this package throws by itself. */
export class LedgerError extends Error {
  /** The name of the class, also where a bundler has given the class another one. */
  override readonly name: string = 'LedgerError';
}

/** A field is beyond its bound, or an option is not one; nothing was sent. */
export class InvalidField extends LedgerError {
  /** The name of the class. */
  override readonly name = 'InvalidField';
  /** The field, as the protobuf files or the options name it, such as `key.source` or `leaseMs`. */
  readonly field: string;
  /** What is allowed. */
  readonly bound: string;

  constructor(field: string, bound: string) {
    super(`${field}: ${bound}`);
    this.field = field;
    this.bound = bound;
  }
}

/** The client is closed or closes, and has sent nothing: let the broker deliver the message again. */
export class Closed extends LedgerError {
  /** The name of the class. */
  override readonly name = 'Closed';

  constructor() {
    super("the ledger's client is closed: let the broker deliver the message again");
  }
}

/**
 * The lease of the claim has ended, or the ledger has refused to renew it: write nothing more.
 *
 * It is the `reason` of the signal of a handler whose claim is lost.
 */
export class ClaimLost extends LedgerError {
  /** The name of the class. */
  override readonly name = 'ClaimLost';
  /** `LEASE_OVER` where the lease ended by the clock of this process, else the ledger's reason, such as `LEASE_LOST`. */
  readonly reason: string;

  constructor(reason: string) {
    super(`the claim is lost (${reason}): another attempt may be running`);
    this.reason = reason;
  }
}

/** The claim was not granted, or is not settled yet: look at `granted` first. */
export class NotGranted extends LedgerError {
  /** The name of the class. */
  override readonly name = 'NotGranted';
}

/**
 * `announce()` was refused before anything was sent, since the claim's policy would not park the message.
 *
 * Set `on_expiry = "PARK_IF_STARTED"` (or `PARK`) in the consumer's policy. Where a handler does not catch this error,
 * the claim is given back with a delay of 5 seconds.
 */
export class NotProtected extends LedgerError {
  /** The name of the class. */
  override readonly name = 'NotProtected';

  constructor(onExpiry: string) {
    super(`on_expiry of this claim is ${onExpiry}: an announced effect would not be parked`);
  }
}

/** The checkpoint is larger than the server's bound (16 KiB by default): the earlier one stays stored. */
export class CheckpointDropped extends LedgerError {
  /** The name of the class. */
  override readonly name = 'CheckpointDropped';
}

/** A function that was made idempotent has no result to return. */
export class NoResult extends LedgerError {
  /** The name of the class. */
  override readonly name = 'NoResult';
  /** Why there is no result, and what to do with the message. */
  readonly outcome: Outcome;

  constructor(outcome: Outcome) {
    super(`the call has no result: ${outcome.advice}, ${outcome.reason ?? 'the result is not stored'}`);
    this.outcome = outcome;
  }
}

/** The base of what a handler throws to say how its attempt ended. */
export abstract class Steer extends Error {
  /** Sent to the ledger and shown to operators: at most 2,000 characters, longer is cut. No payload and no secret. */
  readonly reason: string | undefined;

  constructor(reason?: string, options?: ErrorOptions) {
    super(reason ?? '', options);
    this.reason = reason;
  }
}

/** What {@link Retry} takes. */
export interface RetryOptions extends ErrorOptions {
  /** Milliseconds until the next attempt is due, 0 to 30 days. By default the back-off of the consumer's policy. */
  afterMs?: number | undefined;
}

/** The effect certainly did not happen, and another attempt may succeed. */
export class Retry extends Steer {
  /** The name of the class. */
  override readonly name: string = 'Retry';
  /** Milliseconds until the next attempt is due; `undefined`: the back-off of the consumer's policy. */
  readonly afterMs: number | undefined;

  constructor(reason?: string, options: RetryOptions = {}) {
    super(reason, options);
    if (options.afterMs !== undefined && !(options.afterMs >= 0 && options.afterMs <= 30 * 86_400_000)) {
      throw new InvalidField('afterMs', `${options.afterMs} ms is not within 0 and 30 days`);
    }
    this.afterMs = options.afterMs;
  }
}

/** The effect certainly did not happen, and no attempt will ever succeed: the message is dead-lettered. */
export class Terminal extends Steer {
  /** The name of the class. */
  override readonly name: string = 'Terminal';
}

/** A person must look at the message. Also right where it is unknown whether the effect happened. */
export class Park extends Steer {
  /** The name of the class. */
  override readonly name: string = 'Park';
}

/**
 * It is unknown whether the effect happened, and the next attempt finds out by itself, as with a guard row.
 *
 * Nothing is settled: the lease ends by itself, and the next attempt finds `effectUnknown`.
 */
export class Doubtful extends Steer {
  /** The name of the class. */
  override readonly name: string = 'Doubtful';
}

/** What {@link GiveBack} takes. */
export interface GiveBackOptions extends ErrorOptions {
  /** Milliseconds until the key is claimable again, 0 to 30 days; 0 by default. */
  afterMs?: number | undefined;
  /** True: a corrected message with another body may use the same key. Only where nothing was done. */
  unpinFingerprint?: boolean | undefined;
}

/** Nothing was begun: the claim is released, and the attempt does not count. */
export class GiveBack extends Steer {
  /** The name of the class. */
  override readonly name: string = 'GiveBack';
  /** Milliseconds until the key is claimable again. */
  readonly afterMs: number;
  /** A corrected message with another body may use the same key. */
  readonly unpinFingerprint: boolean;

  constructor(reason?: string, options: GiveBackOptions = {}) {
    super(reason, options);
    this.afterMs = options.afterMs ?? 0;
    if (!(this.afterMs >= 0 && this.afterMs <= 30 * 86_400_000)) {
      throw new InvalidField('afterMs', `${this.afterMs} ms is not within 0 and 30 days`);
    }
    this.unpinFingerprint = options.unpinFingerprint ?? false;
  }
}

/** The ledger has not confirmed the announcement, so that the effect must not start. Do not catch this error. */
export class AnnouncementFailed extends Retry {
  /** The name of the class. */
  override readonly name = 'AnnouncementFailed';
}

/** What a handler has thrown; of a steering class that was thrown without `new`, an error of that class. */
export function errorOf(thrown: unknown): unknown {
  if (typeof thrown !== 'function' || !(thrown.prototype instanceof Steer)) return thrown;
  try {
    return new (thrown as new () => Steer)();
  } catch {
    return thrown; // An application's subclass that needs arguments: an error that was not expected.
  }
}

const ofGuard = new WeakSet<Steer>();

/** Marks an error that a guard has made of another one, which the handler did not choose: it is logged. */
export function markOfGuard<S extends Steer>(error: S): S {
  ofGuard.add(error);
  return error;
}

/** Whether a guard has made the error of another one. */
export function isOfGuard(error: Steer): boolean {
  return ofGuard.has(error);
}

const OWN: ReadonlySet<unknown> = new Set([Retry, Terminal, Park, Doubtful, GiveBack, AnnouncementFailed]);

/** The name of an error's type, which is all that the ledger and the log are given of it. */
export function typeName(error: unknown): string {
  if (!(error instanceof Error)) return error === null ? 'null' : typeof error;
  // `name` may be any text. One that is not a name is not taken, since it could hold a payload.
  const names: unknown[] = [error.name, error.constructor.name];
  // An application's subclass of a steering class has inherited the field, and is better known by its own name.
  if (error instanceof Steer && !OWN.has(error.constructor)) names.reverse();
  return names.find((name): name is string => typeof name === 'string' && /^[\w$.]{1,100}$/.test(name)) ?? 'Error';
}
