import { type Handout, release, take } from './core/inbox.js';
import type { Hold } from './core/hold.js';
import { type Item, LEASE, WorkQueue } from './core/queue.js';
import type { World } from './core/world.js';
import type { Handler } from './claim.js';
import { type StoredMessage, storedOf } from './message.js';
import { type LedgerOptions, nextOf } from './options.js';
import type { Outcome } from './outcome.js';

/** What a worker needs of its ledger. */
export interface Client {
  readonly world: World;
  readonly options: LedgerOptions;
  /** Logs what a call came to. */
  report(outcome: Outcome): void;
  /** Renews the lease until it is settled or lost; never rejects. */
  kept(hold: Hold, lost: AbortController): Promise<void>;
  /** Runs the handler of a message, and settles; never rejects with what the ledger answers. */
  handed(item: Item, handler: Handler, stopping: () => boolean): Promise<unknown>;
}

/** One call of `Ledger.work`. */
export class Worker {
  readonly #queue: WorkQueue;
  readonly #stop = new AbortController();
  #failure: { readonly error: unknown } | undefined;
  #changed: () => void = () => undefined;

  constructor(
    private readonly client: Client,
    private readonly handler: (message: StoredMessage) => Handler,
    concurrency: number,
    private readonly graceMs: number,
  ) {
    this.#queue = new WorkQueue(concurrency, client.options.leaseMs ?? LEASE);
  }

  /** Ends the taking of messages. */
  readonly stop = (): void => {
    this.#stop.abort();
    this.#changed();
  };

  /** Works until it is stopped. Resolves to false where a handler still runs after the grace. */
  async run(): Promise<boolean> {
    try {
      await this.#taking();
    } catch (error) {
      this.#failed(error);
    }
    const ended = await this.#drained();
    if (this.#failure) throw this.#failure.error;
    return ended;
  }

  /** Takes messages, and begins them, until it is stopped. */
  async #taking(): Promise<void> {
    const { client } = this;
    let request: ReturnType<typeof nextOf> | undefined;
    while (!this.#stopping()) {
      const most = this.#queue.room();
      if (!request && most === 0) {
        await new Promise<void>((resolve) => (this.#changed = resolve));
        continue;
      }
      request ??= nextOf(client.options, most, this.#queue.wait());
      const handout = await take(client.world, request);
      if (!handout.again) request = undefined;
      if (handout.refused) client.report(handout.refused);
      this.#arrived(handout);
      if (handout.pause > 0) await client.world.sleep(handout.pause, this.#stop.signal);
    }
  }

  /** Stops; `run` rejects with the first of these errors when what runs has ended. */
  #failed(error: unknown): void {
    this.#failure ??= { error };
    this.stop();
  }

  /** Read again each time: the compiler assumes that a property that was false stays false. */
  #stopping(): boolean {
    return this.#stop.signal.aborted;
  }

  #arrived({ messages }: Handout): void {
    this.#queue.add(
      messages.map(({ hold, handed }) => {
        const lost = new AbortController();
        // A suspect that is lost does not keep the others waiting any more.
        lost.signal.addEventListener('abort', this.#wake, { once: true });
        // By this process's clock a long wait may have used up the lease: then it is renewed immediately.
        return { hold, lost, renewal: this.client.kept(hold, lost), message: storedOf(handed) };
      }),
    );
    this.#begin();
  }

  readonly #wake = (): void => {
    this.#begin();
    this.#changed();
  };

  /** Begins what may begin now. */
  #begin(): void {
    for (let item = this.#queue.next(); item; item = this.#queue.next()) void this.#serve(item);
  }

  async #serve(item: Item): Promise<void> {
    const { world } = this.client;
    const began = world.now();
    try {
      await this.client.handed(item, this.handler(item.message), () => this.#stopping());
    } catch (error) {
      this.#failed(error);
    }
    this.#queue.ended(item, world.now() - began);
    this.#wake();
  }

  /** Releases what has not begun, and waits for what runs. */
  async #drained(): Promise<boolean> {
    const { world } = this.client;
    const until = world.now() + this.graceMs;
    await Promise.all(
      this.#queue.drain().map(async ({ hold, renewal }) => {
        try {
          if (hold.lost === undefined) await release(hold, this.graceMs);
        } catch (error) {
          this.#failed(error);
        }
        hold.end();
        await renewal;
      }),
    );
    while (this.#queue.running > 0 && world.now() < until) {
      const over = new AbortController();
      this.#changed = () => over.abort();
      await world.sleep(until - world.now(), over.signal);
    }
    return this.#queue.running === 0;
  }
}
