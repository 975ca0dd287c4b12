import type { DescMethodUnary, MessageShape } from '@bufbuild/protobuf';
import { create } from '@bufbuild/protobuf';
import type { Duration } from '@bufbuild/protobuf/wkt';
import { DurationSchema } from '@bufbuild/protobuf/wkt';
import { OnExpiry, Advice as Wire } from '../gen/idempotency/ledger/v1/ledger_pb.js';
import { Advice } from '../outcome.js';

/** Milliseconds before the next delivery where the ledger names no time. */
export const DEFAULT_DELAY = 1_000;
/** Milliseconds; a delay is never shorter. */
export const SHORTEST_DELAY = 50;
/** The ledger's own errors after which it is unknown whether the call was applied. */
const UNKNOWN = new Set(['OUTCOME_UNKNOWN', 'DEADLINE_EXCEEDED', 'CANCELLED']);

/** One try of a call: the encoded request, which is the same in each repeat. */
export interface Try {
  readonly method: DescMethodUnary;
  readonly request: Uint8Array;
  /** Milliseconds until the deadline. */
  readonly timeout: number;
  /** It is a repeat: it waits for a connection until its deadline, rather than fail without one. */
  readonly repeat: boolean;
  /** Ends the try; its outcome is of no interest any more. */
  readonly stop: AbortSignal | undefined;
}

/** A call that ended with an error. */
export class Failure {
  constructor(
    /** The name of the gRPC status. */
    readonly code: string,
    /** The ledger's reason; `undefined` where the ledger did not make the error. */
    readonly reason?: string,
    /** The ledger's advice, as the trailer has it. */
    readonly advice?: string,
    /** Milliseconds after which a repeat helps. */
    readonly retryAfter?: number,
    /** What the error said, for people. */
    readonly text = '',
  ) {}

  /** It is unknown whether the call was applied: only its repeat finds out. */
  get unknown(): boolean {
    return this.reason === undefined || UNKNOWN.has(this.reason);
  }

  /** The identical request may be answered otherwise. */
  get repeatable(): boolean {
    return this.unknown || this.retryAfter !== undefined;
  }

  /** The ledger could not be reached, or could not serve. Any other error is an answer. */
  get away(): boolean {
    return this.code === 'UNAVAILABLE' || this.code === 'DEADLINE_EXCEEDED';
  }

  /** The advice of the error; RETRY_LATER without one, and for one that this version does not know. */
  advised(): Advice {
    const known = Object.values(Advice).find((advice) => advice === this.advice);
    return (this.reason !== undefined ? known : undefined) ?? Advice.RETRY_LATER;
  }

  /** The reason, for people. */
  name(): string {
    return this.reason ?? `NO_ANSWER (${this.code})`;
  }
}

/** A call was refused, or its outcome is still unknown after all repeats. */
export class CallFailed extends Error {
  constructor(readonly failure: Failure) {
    super(failure.name());
  }
}

/** What the rules may know of the world, and how long they may try. All times are milliseconds. */
export interface World {
  /** The instant of a clock that never goes back. */
  now(): number;
  /** A number from 0 to 1. */
  random(): number;
  /** Waits; ends early, without an error, where the signal is aborted. */
  sleep(duration: number, stop?: AbortSignal): Promise<void>;
  /** Waits for a connection, at most for `limit`; ends early where there is none to be had. */
  connected(limit: number): Promise<void>;
  /** Sends one try of a call; resolves to the encoded answer, or to the failure. */
  send(attempt: Try): Promise<Uint8Array | Failure>;
  /** How long one try of a call may take. */
  readonly callTimeout: number;
  /** How long a Claim and its repeats may take, besides its `wait`. */
  readonly claimBudget: number;
  /** How long a settlement and its repeats may take. */
  readonly settleBudget: number;
}

/** The times that all packages keep. */
export const LIMITS = { callTimeout: 5_000, claimBudget: 10_000, settleBudget: 20_000 } as const;

/** The answer of a call, and the instant at which its try was sent. */
export interface Answered<M extends DescMethodUnary> {
  readonly answer: MessageShape<M['output']>;
  readonly sent: number;
}

/** The milliseconds of a protobuf duration; 0 where it is not set. */
export function milliseconds(duration: Duration | undefined): number {
  return duration ? Number(duration.seconds) * 1_000 + duration.nanos / 1e6 : 0;
}

/** A number of milliseconds as a protobuf duration, in whole microseconds: the ledger refuses a part of one. */
export function durationOf(ms: number): Duration {
  const whole = Math.floor(ms / 1_000);
  const micros = Math.min(Math.round((ms - whole * 1_000) * 1_000), 999_999);
  return create(DurationSchema, { seconds: BigInt(whole), nanos: micros * 1_000 });
}

const ADVICES = new Map<number, Advice>([
  [Wire.ACK, Advice.ACK],
  [Wire.RETRY_LATER, Advice.RETRY_LATER],
  [Wire.DEAD_LETTER, Advice.DEAD_LETTER],
]);

/** The advice of an answer; `undefined` for PROCESS, for none, and for one that this version does not know. */
export function adviceOf(number: number): Advice | undefined {
  return ADVICES.get(number);
}

/** What becomes of a claim whose lease ends, by the policy as it was when the claim was granted. */
export type OnExpiryName = 'UNSPECIFIED' | 'RECLAIM' | 'PARK' | 'PARK_IF_STARTED';

/** The name of a value of `on_expiry`; `UNSPECIFIED` for one that this version does not know. */
export function onExpiryName(value: OnExpiry): OnExpiryName {
  return (OnExpiry[value] as OnExpiryName | undefined) ?? 'UNSPECIFIED';
}
