import type { DescMessage, MessageInitShape, MessageShape } from '@bufbuild/protobuf';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import type { Try, World } from '../src/core/world.js';
import { Failure, LIMITS, durationOf } from '../src/core/world.js';
import { Hold } from '../src/core/hold.js';
import {
  AcquiredSchema,
  Advice,
  ClaimRequestSchema,
  ClaimResponseSchema,
  CompleteResponseSchema,
  RenewResponseSchema,
} from '../src/gen/idempotency/ledger/v1/ledger_pb.js';

/** What the world answers to a try: an encoded message or a failure; `after` passes before it. */
export interface Scripted {
  answer: Uint8Array | Failure;
  after?: number;
}

/** A world whose clock moves only where something waits. */
export class FakeWorld implements World {
  readonly callTimeout = LIMITS.callTimeout;
  readonly claimBudget = LIMITS.claimBudget;
  readonly settleBudget = LIMITS.settleBudget;
  readonly tries: Try[] = [];
  readonly sleeps: number[] = [];
  clock = 1_000;
  jitter = 1;
  /** How long the first connection takes. */
  connecting = 0;
  /** Runs after each sleep. */
  woken: () => void = () => undefined;

  /** `answers` are taken in their order; the last one stays. */
  constructor(readonly answers: Scripted[]) {}

  now(): number {
    return this.clock;
  }

  random(): number {
    return this.jitter;
  }

  async sleep(duration: number, stop?: AbortSignal): Promise<void> {
    await Promise.resolve();
    if (stop?.aborted) return;
    this.sleeps.push(duration);
    this.clock += duration;
    this.woken();
  }

  async connected(): Promise<void> {
    await Promise.resolve();
    this.clock += this.connecting;
    this.connecting = 0;
  }

  async send(attempt: Try): Promise<Uint8Array | Failure> {
    await Promise.resolve();
    this.tries.push(attempt);
    const next = this.answers.length > 1 ? this.answers.shift() : this.answers[0];
    if (!next) throw new Error('nothing is scripted');
    this.clock += next.after ?? 0;
    return next.answer;
  }

  /** The names of the methods that were called. */
  methods(): string[] {
    return this.tries.map((attempt) => attempt.method.name);
  }

  /** The request of a try. */
  request<S extends DescMessage>(schema: S, at: number): MessageShape<S> {
    return fromBinary(schema, this.tries.at(at)?.request ?? new Uint8Array());
  }
}

export function encoded<S extends DescMessage>(schema: S, init: MessageInitShape<S>, after = 0): Scripted {
  return { answer: toBinary(schema, create(schema, init)), after };
}

export const failure = (
  reason?: string,
  more: { advice?: string; retryAfter?: number; code?: string } = {},
): Scripted => ({
  answer: new Failure(more.code ?? 'UNAVAILABLE', reason, more.advice, more.retryAfter, 'text'),
});

export const completed = encoded(CompleteResponseSchema, { advice: Advice.ACK });
export const granted = (init: MessageInitShape<typeof AcquiredSchema> = {}, after = 0): Scripted =>
  encoded(
    ClaimResponseSchema,
    {
      advice: Advice.PROCESS,
      verdict: {
        case: 'acquired',
        value: { token: 7n, attempt: 1, lease: durationOf(3_000), idempotencyKey: 'k', ...init },
      },
    },
    after,
  );
export const renewed = (lease: number, hold?: number): Scripted =>
  encoded(
    RenewResponseSchema,
    hold === undefined ? { lease: durationOf(lease) } : { lease: durationOf(lease), hold: durationOf(hold) },
  );

export function holdOf(world: World, init: MessageInitShape<typeof AcquiredSchema> = {}): Hold {
  const request = create(ClaimRequestSchema, { key: { consumer: 'c', source: 's', id: 'i' }, eventType: 'e' });
  const acquired = create(AcquiredSchema, { token: 7n, attempt: 2, lease: durationOf(3_000), ...init });
  return new Hold(world, request, acquired, world.now());
}
