import { create } from '@bufbuild/protobuf';
import type { ClaimNextRequest, Handed, StoreRequest } from '../gen/idempotency/ledger/v1/ledger_pb.js';
import { ClaimRequestSchema, LedgerService } from '../gen/idempotency/ledger/v1/ledger_pb.js';
import type { InvalidField } from '../errors.js';
import { GiveBack } from '../errors.js';
import { Advice, outcome, type Outcome } from '../outcome.js';
import { repeated } from './calls.js';
import { advised, failureOf, finish, later, refused, verdictName } from './delivery.js';
import { Hold } from './hold.js';
import type { World } from './world.js';
import { DEFAULT_DELAY, SHORTEST_DELAY, adviceOf, milliseconds } from './world.js';

const { method } = LedgerService;

/** Stores the message; resolves to what to do with the broker's. `fault`: why the ledger would refuse it. */
export async function store(world: World, request: StoreRequest, fault: InvalidField | undefined): Promise<Outcome> {
  if (fault) return outcome(Advice.DEAD_LETTER, { reason: 'INVALID_FIELD', detail: fault.message, error: fault });
  let answer;
  try {
    ({ answer } = await repeated(world, method.store, request, world.claimBudget, world.callTimeout));
  } catch (error) {
    return refused(failureOf(error));
  }
  const name = answer.verdict.case;
  const reason = verdictName(name);
  if (name === undefined || adviceOf(answer.advice) === undefined) return later({ reason }); // Rule 8.
  const replayed = name === 'alreadyStored' || name === 'completed';
  return advised(answer, later({ reason: name === 'stored' ? undefined : reason, replayed }));
}

/** What one ClaimNext came to. */
export interface Handout {
  readonly messages: readonly { readonly hold: Hold; readonly handed: Handed }[];
  /** Milliseconds to wait before the next call. */
  readonly pause: number;
  /** The outcome is unknown: the identical request, with its claim_id, finds what it was handed out. */
  readonly again: boolean;
  /** Why there is none, for the log. */
  readonly refused?: Outcome;
}

/** Sends one ClaimNext and its repeats. Each hold counts from before the try that was answered. */
export async function take(world: World, request: ClaimNextRequest): Promise<Handout> {
  const wait = milliseconds(request.wait);
  let taken;
  try {
    taken = await repeated(world, method.claimNext, request, world.claimBudget + wait, world.callTimeout + wait);
  } catch (error) {
    const failure = failureOf(error);
    // What it was handed out has ended: a new claim_id takes the rest.
    if (failure.reason === 'CLAIM_CLOSED') return { messages: [], pause: SHORTEST_DELAY, again: false };
    const why = refused(failure);
    return { messages: [], pause: why.delayMs || DEFAULT_DELAY, again: failure.unknown, refused: why };
  }
  const { answer, sent } = taken;
  const messages = answer.messages.flatMap((handed) => {
    const { key, acquired, message } = handed;
    if (!key || !acquired) return [];
    const claim = create(ClaimRequestSchema, { key, eventType: message?.eventType ?? '' });
    if (request.lease) claim.lease = request.lease;
    return [{ hold: new Hold(world, claim, acquired, sent), handed }];
  });
  const pause = messages.length > 0 ? 0 : Math.max(milliseconds(answer.retryAfter), SHORTEST_DELAY);
  return { messages, pause, again: false };
}

/** Gives a message back that no handler has begun, within `budget` milliseconds; the attempt does not count. */
export async function release({ world, request, granted }: Hold, budget: number): Promise<void> {
  const limit = { value: Math.min(budget, world.settleBudget) };
  const brief = Object.create(world, { settleBudget: limit }) as World;
  await finish(new Hold(brief, request, granted, world.now()), { error: new GiveBack('CLOSING') });
}
