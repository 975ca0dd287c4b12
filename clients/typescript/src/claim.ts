import type { Ending } from './core/delivery.js';
import { endingOf } from './core/delivery.js';
import { Hold } from './core/hold.js';
import type { OnExpiryName } from './core/world.js';
import { onExpiryName } from './core/world.js';
import { LedgerError, NotGranted } from './errors.js';
import type { Outcome } from './outcome.js';

/** What a handler may return: bytes, text or nothing. At most 16 KiB by default are stored. */
// eslint-disable-next-line @typescript-eslint/no-invalid-void-type -- a handler that returns nothing has this type
export type Result = Uint8Array | string | null | undefined | void;

/** The block of a claim has ended, and neither `complete` nor `fail` was called in it. */
export class NotSettled extends LedgerError {
  /** The name of the class. */
  override readonly name = 'NotSettled';
}

/** The names of a claim's message. */
export interface ClaimKey {
  /** The group that processes. */
  readonly consumer: string;
  /** The producer. */
  readonly source: string;
  /** The message, unique within its source. */
  readonly id: string;
  /** The replay run; empty for live deliveries. */
  readonly replayRun: string;
}

/** How a claim is settled; by its client. */
export type Settle = (hold: Hold, ending: Ending) => Promise<Outcome>;

/** The right to process a message now, where `granted`. It is held under a lease that is renewed meanwhile. */
export class Claim implements AsyncDisposable {
  readonly #hold: Hold | undefined;
  readonly #signal: AbortSignal;
  readonly #settle: Settle;
  readonly #done: () => void;
  #outcome: Outcome | undefined;
  #ended: Promise<Outcome> | undefined;

  /** @internal */
  constructor(begun: Hold | Outcome, signal: AbortSignal, settle: Settle, done: () => void) {
    if (begun instanceof Hold) this.#hold = begun;
    else this.#outcome = begun;
    this.#signal = signal;
    this.#settle = settle;
    this.#done = done;
  }

  /** True: process the message now. False: `outcome` says what to do with it. */
  get granted(): boolean {
    return this.#hold !== undefined;
  }

  /** What became of the delivery. Throws {@link NotGranted} while that is not known yet. */
  get outcome(): Outcome {
    const outcome = this.#outcome ?? this.#hold?.settled;
    if (!outcome) throw new NotGranted('the claim is not settled yet: its outcome is known afterwards');
    return outcome;
  }

  get #held(): Hold {
    if (!this.#hold) throw new NotGranted(`the claim was not granted: ${this.#outcome?.advice}`);
    return this.#hold;
  }

  /** The fence, below 2^53: write it with the effect, and let the store refuse a lower one. */
  get token(): bigint {
    return this.#held.granted.token;
  }

  /** The same on every attempt: hand it to a provider that deduplicates by such a key. */
  get idempotencyKey(): string {
    return this.#held.granted.idempotencyKey;
  }

  /** Which attempt this is, from 1 on. */
  get attempt(): number {
    return this.#held.granted.attempt;
  }

  /** The number of attempts that are left after this one; `undefined` without a limit. */
  get attemptsLeft(): number | undefined {
    return this.#held.granted.attemptsLeft;
  }

  /** An earlier attempt may have had its effect: look before an effect that is not idempotent is repeated. */
  get effectUnknown(): boolean {
    return this.#held.granted.effectUnknown;
  }

  /** An earlier attempt had announced its effect. Only with `repeatAnnounced: true` a handler sees this. */
  get priorEffectStarted(): boolean {
    return this.#held.granted.priorEffectStarted;
  }

  /** What an earlier attempt saved; empty where there is nothing. */
  get checkpoint(): Uint8Array {
    return this.#held.granted.checkpoint;
  }

  /** The error of the last failed attempt; empty where there is none. */
  get lastError(): string {
    return this.#held.granted.lastError;
  }

  /** What becomes of this claim should its lease end. */
  get onExpiry(): OnExpiryName {
    return onExpiryName(this.#held.granted.onExpiry);
  }

  /** `announce()` was called: the ledger may know that the effect was about to start. */
  get announced(): boolean {
    return this.#held.announced;
  }

  /** The instant of `performance.now()` at which the claim is over at the latest, whatever is renewed. */
  get holdUntil(): number {
    return this.#held.holdUntil;
  }

  /** The parts of the key, as a guard writes them. */
  get key(): ClaimKey {
    const { consumer = '', source = '', id = '', replayRun = '' } = this.#held.request.key ?? {};
    return { consumer, source, id, replayRun };
  }

  /** Aborted with a `ClaimLost` where the claim is lost: the second argument of a handler. */
  get signal(): AbortSignal {
    return this.#signal;
  }

  /** Why the claim is not held any more, such as `LEASE_LOST`; `undefined` while it is held. */
  get lost(): string | undefined {
    return this.#held.over();
  }

  /** Throws `ClaimLost` where the claim is not held any more. Call it before each part of a long effect. */
  check(): void {
    this.#held.check();
  }

  /**
   * Reports to the ledger that the effect is about to start, so that a crash after this parks the message. Start the
   * effect after this has resolved, and not otherwise. Throws `NotProtected`, `AnnouncementFailed`, `ClaimLost`.
   */
  async announce(): Promise<void> {
    await this.#held.announce();
  }

  /**
   * Stores progress that the next attempt finds in `checkpoint`: at most 16 KiB by default. Throws `CheckpointDropped`
   * for a larger one (the earlier one stays), and `ClaimLost` where it is not confirmed.
   */
  async save(checkpoint: Uint8Array): Promise<void> {
    await this.#held.save(checkpoint);
  }

  /** Completes the message now, before the handler or the block ends. What follows cannot fail it any more. */
  async complete(result?: Result): Promise<Outcome> {
    return this.#settle(this.#held, endingOf(result));
  }

  /** Ends the attempt as a handler does that throws this error. */
  async fail(error: unknown): Promise<Outcome> {
    return this.#settle(this.#held, { error });
  }

  /**
   * Ends the block of `Ledger.claim`; `await using` does it. A granted claim that is not settled by then is settled as
   * after an unexpected error, with the reason `NotSettled`: whether its effect happened is not known.
   */
  async end(): Promise<Outcome> {
    return (this.#ended ??= this.#end());
  }

  async #end(): Promise<Outcome> {
    if (this.#hold) {
      const ending = { error: new NotSettled('the block of the claim has ended without complete or fail') };
      this.#outcome = this.#hold.settlement ? await this.#hold.settlement : await this.#settle(this.#hold, ending);
    }
    this.#done();
    return this.outcome;
  }

  /** The same as `end`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.end();
  }
}

/** Processes a message whose claim was granted. `signal` is aborted where the claim is lost. */
export type Handler = (claim: Claim, signal: AbortSignal) => Promise<Result> | Result;
