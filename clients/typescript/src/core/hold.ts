import { create } from '@bufbuild/protobuf';
import type { Acquired, ClaimRequest, RenewRequest, RenewResponse } from '../gen/idempotency/ledger/v1/ledger_pb.js';
import { LedgerService, OnExpiry, RenewRequestSchema } from '../gen/idempotency/ledger/v1/ledger_pb.js';
import { AnnouncementFailed, CheckpointDropped, ClaimLost, NotProtected } from '../errors.js';
import type { Outcome } from '../outcome.js';
import { repeated } from './calls.js';
import type { World } from './world.js';
import { CallFailed, milliseconds, onExpiryName } from './world.js';

/** What the ledger answers where the claim is over. Any other error leaves the lease as it is. */
const OVER = new Set(['LEASE_LOST', 'CLAIM_CLOSED', 'ENTRY_NOT_FOUND', 'TOKEN_FROM_FUTURE']);
/**
 * Milliseconds. A process that stood still for longer than LATE may find its lease over although no other claim was
 * granted the key: a Renew that is answered within LATE_BUDGET finds out.
 */
const LATE = 100;
const LATE_BUDGET = 1_000;
const SHORTEST_WAIT = 100;

/** The reason of a claim whose lease ended by the clock of this process. */
export const LEASE_OVER = 'LEASE_OVER';

/** A granted claim. Its instants count from before the call was sent, so that they are early rather than late. */
export class Hold {
  leaseUntil: number;
  holdUntil: number;
  announced = false;
  /** Why the claim is lost. */
  lost: string | undefined;
  /** From the first Complete on: its outcome may be unknown, and nothing but a Complete may be sent any more. */
  completing = false;
  /** The first settlement under way or done; nothing else is sent after it. */
  settlement: Promise<Outcome> | undefined;
  /** What the settlement came to. */
  settled: Outcome | undefined;
  readonly #ended = new AbortController();
  #renewAt: number;

  constructor(
    readonly world: World,
    readonly request: ClaimRequest,
    readonly granted: Acquired,
    sent: number,
  ) {
    const lease = milliseconds(granted.lease);
    this.leaseUntil = sent + lease;
    this.holdUntil = granted.hold ? sent + milliseconds(granted.hold) : Infinity;
    this.#renewAt = sent + lease / 3;
  }

  /** Why the claim must not be acted under any more; `undefined` while it is held. */
  over(): string | undefined {
    return this.lost ?? (this.world.now() >= this.leaseUntil ? LEASE_OVER : undefined);
  }

  /** Throws {@link ClaimLost} where the claim is not held any more. */
  check(): void {
    const reason = this.over();
    if (reason !== undefined) throw new ClaimLost(reason);
  }

  /** Ends the renewal: a call of it that is in flight is dropped. */
  end(): void {
    this.#ended.abort();
  }

  async #renew(budget: number, fields: Partial<RenewRequest> = {}, stop?: AbortSignal): Promise<RenewResponse> {
    const { key, lease } = this.request;
    const request = create(RenewRequestSchema, { token: this.granted.token, ...fields });
    if (key) request.key = key;
    if (lease) request.lease = lease;
    const { world } = this;
    const { answer, sent } = await repeated(
      world,
      LedgerService.method.renew,
      request,
      budget,
      world.callTimeout,
      stop,
    );
    const left = milliseconds(answer.lease);
    this.leaseUntil = Math.max(this.leaseUntil, sent + left);
    this.#renewAt = sent + left / 3;
    if (answer.hold) this.holdUntil = Math.min(this.holdUntil, sent + milliseconds(answer.hold));
    return answer;
  }

  /**
   * Whether the handler may run. A Claim that has waited may have used up its lease by the clock of this process, which
   * counts from before the call was sent, and so may a process that stood still: a Renew decides.
   */
  async madeSure(): Promise<boolean> {
    if (this.over() !== undefined) {
      try {
        await this.#renew(this.world.callTimeout);
      } catch (error) {
        if (error instanceof CallFailed) return false;
        throw error;
      }
    }
    return this.over() === undefined;
  }

  /** Reports to the ledger that the effect is about to start. Resolves once the ledger has confirmed it. */
  async announce(): Promise<void> {
    this.check();
    const { onExpiry } = this.granted;
    // Rule 15: under any other policy the next holder is granted the claim all the same.
    if (onExpiry !== OnExpiry.PARK && onExpiry !== OnExpiry.PARK_IF_STARTED) {
      throw new NotProtected(onExpiryName(onExpiry));
    }
    this.announced = true; // The ledger may know it although its answer is lost.
    try {
      await this.#renew(this.leaseUntil - this.world.now(), { effectStarted: true });
    } catch (error) {
      if (!(error instanceof CallFailed)) throw error;
      throw new AnnouncementFailed(`the announcement is not confirmed: ${error.failure.name()}`);
    }
    this.check();
  }

  /** Stores the checkpoint, which the next attempt finds. */
  async save(checkpoint: Uint8Array): Promise<void> {
    this.check();
    let answer: RenewResponse;
    try {
      answer = await this.#renew(this.leaseUntil - this.world.now(), { checkpoint });
    } catch (error) {
      if (!(error instanceof CallFailed)) throw error;
      if (error.failure.reason !== 'TOO_LARGE') throw new ClaimLost(error.failure.name());
      throw new CheckpointDropped('the request with the checkpoint is larger than the server takes');
    }
    if (answer.checkpointDropped) {
      throw new CheckpointDropped("the checkpoint is larger than the server's bound; the earlier one stays");
    }
  }

  /** Renews the lease at a third of it until the claim is lost; resolves to the reason, or `undefined` at its end. */
  async renewing(): Promise<string | undefined> {
    const { world } = this;
    const stop = this.#ended.signal;
    const ended = () => stop.aborted || this.settled !== undefined;
    for (;;) {
      // The last part of the hold cannot be extended: nothing more is sent, and the claim ends with its lease.
      const final = this.leaseUntil + 1 >= this.holdUntil;
      const until = final ? this.leaseUntil : Math.min(this.#renewAt, this.leaseUntil);
      await world.sleep(Math.max(0, until - world.now()), stop);
      if (ended()) return undefined;
      if (final && world.now() >= this.leaseUntil) return LEASE_OVER;
      // Announced or saved meanwhile, which renews too.
      if (final || world.now() < Math.min(this.#renewAt, this.leaseUntil)) continue;
      const over = world.now() >= this.leaseUntil;
      if (over && world.now() < until + LATE) return LEASE_OVER;
      try {
        await this.#renew(over ? LATE_BUDGET : this.leaseUntil - world.now(), {}, stop);
      } catch (error) {
        if (!(error instanceof CallFailed)) throw error;
        if (ended()) return undefined;
        const { reason } = error.failure;
        // After a Complete the ledger has closed the claim, whether its answer has arrived here or not.
        if (reason !== undefined && OVER.has(reason)) return this.completing ? undefined : reason;
        if (world.now() >= this.leaseUntil) return LEASE_OVER;
        // Refused for now (rights, the limit of the hold): the lease that is left still stands.
        const wait = Math.max(SHORTEST_WAIT, (this.leaseUntil - world.now()) / 3);
        this.#renewAt = Math.min(this.leaseUntil, world.now() + wait);
      }
    }
  }
}
