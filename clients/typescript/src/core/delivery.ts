import { create } from '@bufbuild/protobuf';
import type { DescMethodUnary, MessageShape } from '@bufbuild/protobuf';
import type { Duration } from '@bufbuild/protobuf/wkt';
import type { ClaimRequest, ClaimResponse } from '../gen/idempotency/ledger/v1/ledger_pb.js';
import {
  CompleteRequestSchema,
  EntryKeySchema,
  FailRequestSchema,
  FailureKind,
  LedgerService,
  ReleaseRequestSchema,
  Advice as Wire,
} from '../gen/idempotency/ledger/v1/ledger_pb.js';
import type { InvalidField, Steer } from '../errors.js';
import { ClaimLost, Doubtful, GiveBack, NotProtected, Park, Retry, Steer as AnySteer, Terminal } from '../errors.js';
import { errorOf, typeName } from '../errors.js';
import { Advice, outcome, type Outcome } from '../outcome.js';
import { repeated } from './calls.js';
import { Hold } from './hold.js';
import type { Failure, World } from './world.js';
import { CallFailed, DEFAULT_DELAY, SHORTEST_DELAY, adviceOf, durationOf, milliseconds } from './world.js';

const ERROR_LENGTH = 2_000; // characters; the ledger cuts at 2 KiB
const MENDING_DELAY = 5_000; // milliseconds until a claim is tried again whose policy does not protect its effect
const { method } = LedgerService;

/** How an unexpected error of a handler is taken. */
export type Unexpected = typeof Park | typeof Retry | typeof Doubtful;

/** What a handler came to: its result, or what it threw. */
export type Ending = { readonly result: Uint8Array; readonly leftOut: boolean } | { readonly error: unknown };

/** What `begin` has to know besides the request. */
export interface Beginning {
  readonly request: ClaimRequest;
  /** The fault of the message's key, which the ledger would refuse in the same way. */
  readonly fault: InvalidField | undefined;
  readonly repeatAnnounced: boolean;
  /** The client closes, or the caller is gone: nothing is begun any more. */
  stopping(): boolean;
}

/** Claims the message. Resolves to a {@link Hold} where the handler must run, else to what became of the delivery. */
export async function begin(world: World, delivery: Beginning): Promise<Hold | Outcome> {
  const { request, fault } = delivery;
  if (fault) return outcome(Advice.DEAD_LETTER, { reason: 'INVALID_FIELD', detail: fault.message, error: fault });
  const wait = milliseconds(request.wait);
  let claimed;
  try {
    claimed = await repeated(world, method.claim, request, world.claimBudget + wait, world.callTimeout + wait);
  } catch (error) {
    const failure = failureOf(error);
    return { ...refused(failure), away: failure.away };
  }
  const { answer, sent } = claimed;
  // Rule 9: only this verdict with only this advice is a grant.
  if (answer.advice !== Wire.PROCESS || answer.verdict.case !== 'acquired') return verdict(answer);
  const granted = answer.verdict.value;
  return admitted(new Hold(world, request, granted, sent), () => delivery.stopping(), delivery.repeatAnnounced);
}

/** The hold, where its handler may begin now; else what became of the claim. */
export async function admitted(hold: Hold, stopping: () => boolean, repeatAnnounced: boolean): Promise<Hold | Outcome> {
  // While it waited for a handler: another attempt may be running, and nothing is settled.
  if (hold.lost !== undefined) return later({ reason: hold.lost, effectUnknown: hold.granted.effectUnknown });
  if (stopping()) return givenBack(hold, 'CLOSING');
  if (!(await hold.madeSure())) return givenBack(hold, 'LEASE_OVER');
  // Rule 14: whether that effect happened is unknown.
  if (hold.granted.priorEffectStarted && !repeatAnnounced) {
    const parked = await finish(hold, { error: new Park('an earlier attempt had announced its effect') });
    return { ...parked, reason: 'PRIOR_EFFECT_STARTED', effectUnknown: true, error: undefined };
  }
  return hold;
}

async function givenBack(hold: Hold, reason: string): Promise<Outcome> {
  return { ...(await finish(hold, { error: new GiveBack() })), reason, error: undefined };
}

/** What the handler has returned, as an ending: bytes, text or nothing. Anything else is left out. */
export function endingOf(result: unknown): Ending {
  if (result === undefined || result === null) return { result: new Uint8Array(), leftOut: false };
  // A lone surrogate cannot be written as UTF-8: the effect is done all the same.
  if (typeof result === 'string' && !/\p{Surrogate}/u.test(result)) {
    return { result: Buffer.from(result), leftOut: false };
  }
  if (result instanceof Uint8Array) return { result, leftOut: false };
  return { result: new Uint8Array(), leftOut: true };
}

/** Settles by how the handler ended. Nothing is sent after the first settlement (rule 13). */
export async function finish(hold: Hold, ended: Ending, unexpected: Unexpected = Park): Promise<Outcome> {
  const ending: Ending = 'error' in ended ? { error: errorOf(ended.error) } : ended;
  const error = 'error' in ending ? ending.error : undefined;
  if (hold.settlement) return { ...(await hold.settlement), error };
  hold.settlement = settle(hold, ending, unexpected);
  hold.settled = await hold.settlement;
  return { ...hold.settled, error };
}

async function settle(hold: Hold, ending: Ending, unexpected: Unexpected): Promise<Outcome> {
  let came: Outcome;
  if ('error' in ending) {
    came = await failed(hold, steered(hold, ending.error, unexpected));
  } else {
    hold.completing = true;
    came = await complete(hold, ending.result, ending.leftOut);
  }
  const effectUnknown = came.effectUnknown || hold.granted.effectUnknown;
  return { ...came, attempt: hold.granted.attempt, effectUnknown };
}

/** What an error of the handler says of its effect. */
function steered(hold: Hold, error: unknown, unexpected: Unexpected): Steer {
  if (error instanceof AnySteer) return error;
  // Rule 15: nothing has begun.
  if (error instanceof NotProtected) return new GiveBack('NOT_PROTECTED', { afterMs: MENDING_DELAY });
  // Rule 12: a handler whose claim is lost cannot say what became of the effect.
  if (error instanceof ClaimLost || hold.lost !== undefined) return new Doubtful(hold.over() ?? 'INTERRUPTED');
  return new unexpected(typeName(error));
}

async function complete(hold: Hold, result: Uint8Array, leftOut: boolean): Promise<Outcome> {
  const base = later({ result: leftOut ? undefined : result, resultDropped: leftOut });
  const request = create(CompleteRequestSchema, { ...common(hold), result, resultLeftOut: leftOut });
  let answer;
  try {
    answer = await sent(hold, method.complete, request);
  } catch (error) {
    const failure = failureOf(error);
    if (failure.reason !== 'TOO_LARGE' || !result.length) return refused(failure, base);
    // Rule 22: without this the done effect would have no record.
    Object.assign(request, { result: new Uint8Array(), resultLeftOut: true });
    try {
      answer = await sent(hold, method.complete, request);
    } catch (second) {
      return refused(failureOf(second), base);
    }
  }
  return advised(answer, { ...base, resultDropped: answer.resultDropped }); // Rule 21.
}

const KINDS: ReadonlyArray<readonly [typeof Retry | typeof Terminal, FailureKind]> = [
  [Retry, FailureKind.RETRYABLE],
  [Terminal, FailureKind.TERMINAL],
];

async function failed(hold: Hold, steer: Steer): Promise<Outcome> {
  // Rule 12: nothing is settled, and the lease ends by itself.
  if (steer instanceof Doubtful) return later({ effectUnknown: true, reason: steer.reason ?? 'DOUBTFUL' });
  const reason = steer.reason ?? typeName(steer);
  try {
    if (steer instanceof GiveBack) {
      const request = create(ReleaseRequestSchema, {
        ...common(hold),
        delay: durationOf(steer.afterMs),
        unpinFingerprint: steer.unpinFingerprint,
      });
      const base = later({ reason, delayMs: Math.max(steer.afterMs, SHORTEST_DELAY) });
      return advised(await sent(hold, method.release, request), base);
    }
    const kind = KINDS.find(([known]) => steer instanceof known)?.[1] ?? FailureKind.PARK;
    const request = create(FailRequestSchema, { ...common(hold), kind, error: reason.slice(0, ERROR_LENGTH) });
    if (steer instanceof Retry && steer.afterMs !== undefined) request.retryAfter = durationOf(steer.afterMs);
    return advised(await sent(hold, method.fail, request), later({ reason }));
  } catch (error) {
    return refused(failureOf(error), later({ reason }));
  }
}

/** What every settlement names. */
function common(hold: Hold) {
  const { key, eventType } = hold.request;
  return { key: key ?? create(EntryKeySchema), token: hold.granted.token, eventType };
}

async function sent<M extends DescMethodUnary>(
  hold: Hold,
  call: M,
  request: MessageShape<M['input']>,
): Promise<MessageShape<M['output']>> {
  const { world } = hold;
  return (await repeated(world, call, request, world.settleBudget, world.callTimeout)).answer;
}

/** What a verdict other than a grant says. One that this version does not know means RETRY_LATER (rule 8). */
function verdict(answer: ClaimResponse): Outcome {
  const { case: name, value } = answer.verdict;
  const known = name !== undefined && name !== 'acquired' ? adviceOf(answer.advice) : undefined;
  const reason = verdictName(name);
  if (known === undefined) return later({ reason, delayMs: namedDelay(answer.retryAfter) ?? DEFAULT_DELAY });
  const came = advised(answer, later({ reason }));
  if (name !== 'completed') return came;
  const { resultDropped, resultExpired, resultOmitted, attempt } = value;
  const result = resultDropped || resultExpired || resultOmitted ? undefined : value.result;
  return { ...came, result, replayed: true, reason: undefined, resultDropped, attempt };
}

/** The name of a verdict, as the protobuf files have it. */
export function verdictName(name: string | undefined): string {
  return name?.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`) ?? 'UNKNOWN_VERDICT';
}

/** An outcome of a delivery that must come again. */
export function later(fields: Partial<Outcome>): Outcome {
  return outcome(Advice.RETRY_LATER, { delayMs: DEFAULT_DELAY, ...fields });
}

function namedDelay(retryAfter: Duration | undefined): number | undefined {
  return retryAfter && Math.max(milliseconds(retryAfter), SHORTEST_DELAY);
}

/** The base with the advice of an answer (rules 7 and 8), and with the wait that it names (rule 10). */
export function advised(
  answer: { readonly advice: Wire; readonly retryAfter?: Duration | undefined },
  base: Outcome,
): Outcome {
  const advice = adviceOf(answer.advice) ?? Advice.RETRY_LATER;
  if (advice !== Advice.RETRY_LATER) return { ...base, advice, delayMs: 0 };
  return { ...base, advice, delayMs: namedDelay(answer.retryAfter) ?? base.delayMs };
}

/** What an error says: its own advice (rule 5), and RETRY_LATER where it is not the ledger's (rule 3). */
export function refused(failure: Failure, base: Outcome = later({})): Outcome {
  const advice = failure.advised();
  const named = failure.retryAfter === undefined ? DEFAULT_DELAY : Math.max(failure.retryAfter, SHORTEST_DELAY);
  const delayMs = advice === Advice.RETRY_LATER ? named : 0;
  return { ...base, advice, delayMs, reason: failure.name(), detail: failure.text };
}

/** The failure of a call; any other error is thrown. */
export function failureOf(error: unknown): Failure {
  if (error instanceof CallFailed) return error.failure;
  throw error;
}
