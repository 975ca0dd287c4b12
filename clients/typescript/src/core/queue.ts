import type { StoredMessage } from '../message.js';
import type { Hold } from './hold.js';
import { milliseconds } from './world.js';

const WAIT = 5_000; // milliseconds that a ClaimNext waits at most: a request to stop is obeyed after it
const AHEAD = 10; // messages that each handler has at hand at most: other workers may be free for the rest
const ONE_CALL = 1_000; // messages that one ClaimNext may hand out
/** Milliseconds: the lease that is assumed before the first handout says what it is. */
export const LEASE = 30_000;
/** A message whose lease ran out twice in a row is handed out alone: it may kill the process that runs it. */
const SUSPECT_ATTEMPT = 3;

/** A message that this process was handed out. */
export interface Item {
  readonly hold: Hold;
  readonly message: StoredMessage;
  /** Aborted where the claim is lost. */
  readonly lost: AbortController;
  /** The renewal, from the handout on; it never rejects. */
  readonly renewal: Promise<void>;
}

/** The messages of a worker that wait, and those that run. */
export class WorkQueue {
  #waiting: Item[] = [];
  readonly #running = new Map<string, Item>();
  readonly #suspects = new Set<Item>();
  #took: number | undefined;

  constructor(
    readonly concurrency: number,
    private lease: number,
  ) {}

  /** How many handlers run. */
  get running(): number {
    return this.#running.size;
  }

  /** How many messages to ask for now; 0 while enough wait, and while a suspect waits or runs. */
  room(): number {
    this.#dropLost();
    if (this.#waiting.length >= this.concurrency || this.#suspects.size > 0) return 0;
    // All leases of a handout begin with it: it is at most what half of a lease suffices for.
    const half = this.#took === undefined ? 1 : Math.floor(this.lease / (2 * Math.max(this.#took, 1)));
    const ahead = Math.max(1, Math.min(AHEAD, half));
    return Math.max(0, Math.min(ONE_CALL, this.concurrency * ahead - this.#waiting.length - this.#running.size));
  }

  /** Milliseconds that a ClaimNext may wait: a quarter of the lease, which counts from before the call. */
  wait(): number {
    return Math.min(WAIT, this.lease / 4);
  }

  /** A handout has arrived. */
  add(items: readonly Item[]): void {
    for (const item of items) {
      const { lease, effectUnknown, attempt } = item.hold.granted;
      this.lease = milliseconds(lease);
      if (items.length === 1 && effectUnknown && attempt >= SUSPECT_ATTEMPT) this.#suspects.add(item);
      this.#waiting.push(item);
    }
  }

  /** The next message to run, which counts as running from now on; `undefined` while none may begin. */
  next(): Item | undefined {
    this.#dropLost();
    const running = [...this.#running.values()];
    if (running.length >= this.concurrency || running.some((item) => this.#suspects.has(item))) return undefined;
    for (const item of this.#waiting) {
      if (this.#suspects.has(item) && running.length > 0) return undefined;
      // A handler of an earlier attempt, whose lease was lost, may still run here.
      if (this.#running.has(nameOf(item))) continue;
      this.#waiting = this.#waiting.filter((other) => other !== item);
      this.#running.set(nameOf(item), item);
      return item;
    }
    return undefined;
  }

  /** A suspect whose claim is lost while it waits is not a suspect any more: no handler begins for it. */
  #dropLost(): void {
    for (const item of this.#waiting) if (item.hold.lost !== undefined) this.#suspects.delete(item);
  }

  /** Its handler has ended after `took` milliseconds. */
  ended(item: Item, took: number): void {
    this.#running.delete(nameOf(item));
    this.#suspects.delete(item);
    this.#took = this.#took === undefined ? took : Math.max(took, 0.9 * this.#took + 0.1 * took);
  }

  /** The messages that have not begun; none of them begins any more. */
  drain(): Item[] {
    return this.#waiting.splice(0);
  }
}

function nameOf({ message: { key } }: Item): string {
  return JSON.stringify([key.source, key.id]);
}
