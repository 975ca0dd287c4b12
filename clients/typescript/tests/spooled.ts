import { Key } from '../src/key.js';
import { Advice, outcome } from '../src/outcome.js';
import { Spool } from '../src/spool.js';

export const AWAY = outcome(Advice.RETRY_LATER, { delayMs: 1_000, reason: 'NO_ANSWER (UNAVAILABLE)', away: true });
export const KEY = Key.of('shop', 'order-1');

export function never(): never {
  throw new Error('the effect ran');
}

/** A file that notes what is done to it, and fails from one step on. */
export class Script {
  readonly steps: string[] = [];
  readonly lines: Array<Record<string, unknown>> = [];
  /** The step that fails first; 0: no step fails. */
  fails = 0;
  /** How many bytes of a line are written at most. */
  most = Infinity;

  #step(name: string): Promise<void> {
    this.steps.push(name);
    const fails = this.fails > 0 && this.steps.length >= this.fails;
    return fails ? Promise.reject(new Error('no space left on device')) : Promise.resolve();
  }

  async write(data: Uint8Array): Promise<number> {
    const text = Buffer.from(data).toString();
    if (!text.endsWith('\n') || text.indexOf('\n') < text.length - 1) throw new Error('is not a whole line');
    const line = JSON.parse(text) as Record<string, unknown>;
    this.lines.push(line);
    await this.#step(line['event'] as string);
    return Math.min(data.length, this.most);
  }

  sync(): Promise<void> {
    return this.#step('sync');
  }

  close(): Promise<void> {
    return this.#step('close');
  }

  spool(clock?: () => number): Spool {
    return Spool.over(this, clock);
  }
}
