/** What to do with the broker's message. */
export const Advice = {
  /** The message is completed: acknowledge it. */
  ACK: 'ACK',
  /** Do not acknowledge it: let the broker deliver it again, after `delayMs` of the outcome. */
  RETRY_LATER: 'RETRY_LATER',
  /** Only a person can change the answer: store a safe copy, then acknowledge it. */
  DEAD_LETTER: 'DEAD_LETTER',
} as const;

/** What to do with the broker's message: `ACK`, `RETRY_LATER` or `DEAD_LETTER`. */
export type Advice = (typeof Advice)[keyof typeof Advice];

/** What became of a delivery. Acknowledge on the advice `ACK` alone. */
export interface Outcome {
  /** What to do with the broker's message. */
  readonly advice: Advice;
  /** With `RETRY_LATER`: how many milliseconds to wait at least before the next delivery. Else 0. */
  readonly delayMs: number;
  /** What the handler of this or of the earlier attempt returned; `undefined` where it is not known here. */
  readonly result: Uint8Array | undefined;
  /** An earlier attempt completed the message, and no handler ran for this delivery. */
  readonly replayed: boolean;
  /** The effect had a result that the ledger has not stored: it was too large, or could not be a result. */
  readonly resultDropped: boolean;
  /** The grant said that an earlier attempt may have had its effect, or this attempt ended in doubt. */
  readonly effectUnknown: boolean;
  /**
   * Why, where it is not simply done: the ledger's reason (`LEASE_LOST`), its verdict (`parked`), the reason that the
   * handler gave, or one of the package: `INVALID_FIELD`, `PRIOR_EFFECT_STARTED`, `NOT_PROTECTED`, `CLOSING`,
   * `LEASE_OVER`, `DOUBTFUL`, `INTERRUPTED`, `UNKNOWN_VERDICT`, `NO_ANSWER`.
   */
  readonly reason: string | undefined;
  /** For people: the field at fault and its bound, what the error of a call said, or which endpoint did not answer. Else empty. */
  readonly detail: string;
  /** Which attempt this was, or how many there were; 0 where it is not known. */
  readonly attempt: number;
  /** What the handler threw, for the application's own log; it is not sent to the ledger. */
  readonly error: unknown;
  /**
   * Claim itself was not answered (`UNAVAILABLE`, `DEADLINE_EXCEEDED`, or no connection), so that no handler ran. Only then
   * may a consumer that has chosen to work without the ledger go on, by a `Spool`.
   */
  readonly away: boolean;
}

/** An outcome of which only some fields are known. */
export function outcome(advice: Advice, fields: Partial<Outcome> = {}): Outcome {
  return {
    delayMs: 0,
    result: undefined,
    replayed: false,
    resultDropped: false,
    effectUnknown: false,
    reason: undefined,
    detail: '',
    attempt: 0,
    error: undefined,
    away: false,
    ...fields,
    advice,
  };
}
