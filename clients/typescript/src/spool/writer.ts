import { SpoolFailed } from './failed.js';
import type { SpoolFile } from './file.js';

const VERSION = 1;

/** What a line says of its effect. */
export type SpoolEvent = 'begin' | 'end' | 'none';

/** What the lines of one effect say, besides the event and its instant. The names are those of the file. */
export interface Effect {
  readonly row: string;
  readonly consumer: string;
  readonly source: string;
  readonly id: string;
  readonly fingerprint_hex?: string;
  readonly result_base64?: string;
}

/** The wall clock, in whole microseconds since 1970. */
export type SpoolClock = () => number;

/** A line of the file, with its line break; `at` is in microseconds since 1970. */
export function render(event: SpoolEvent, at: number, effect: Effect): string {
  const { row, ...rest } = effect;
  return `${JSON.stringify({ v: VERSION, event, row, at: instant(at), ...rest })}\n`;
}

function instant(at: number): string {
  const micros = String(at % 1_000).padStart(3, '0');
  return `${new Date(Math.floor(at / 1_000)).toISOString().slice(0, -1)}${micros}Z`;
}

/** Appends lines to a file, one after the other, each synced before the next one. */
export class SpoolWriter {
  readonly #file: SpoolFile;
  readonly #clock: SpoolClock;
  /** The write or the close that was asked for last; it never rejects. */
  #busy: Promise<unknown> = Promise.resolve();
  #failed: string | undefined;
  #last = 0;
  #closed = false;

  constructor(file: SpoolFile, clock: SpoolClock = () => Date.now() * 1_000) {
    this.#file = file;
    this.#clock = clock;
  }

  /** Appends a line; resolves when the line is on the disk, and rejects with {@link SpoolFailed} where it may not be. */
  async append(event: SpoolEvent, effect: Effect): Promise<void> {
    return this.#after(() => this.#append(event, effect));
  }

  /** Closes the file after the lines before it. */
  async close(): Promise<void> {
    return this.#after(async () => {
      if (this.#closed) return;
      this.#closed = true;
      this.#failed = 'the spool is closed';
      await this.#file.close();
    });
  }

  async #after(step: () => Promise<void>): Promise<void> {
    const done = this.#busy.then(step);
    this.#busy = done.catch(() => undefined);
    return done;
  }

  async #append(event: SpoolEvent, effect: Effect): Promise<void> {
    if (this.#failed !== undefined) throw new SpoolFailed(this.#failed);
    // Later than all lines before: key and instant identify a row, and an end follows its beginning.
    this.#last = Math.max(this.#clock(), this.#last + 1);
    const data = Buffer.from(render(event, this.#last, effect));
    try {
      const written = await this.#file.write(data);
      if (written !== data.length) throw new Error(`${written} of ${data.length} bytes were written`);
      await this.#file.sync();
    } catch (error) {
      this.#failed = `the spool could not be written (${(error as Error).message}): open another file`;
      throw new SpoolFailed(this.#failed, { cause: error });
    }
  }
}
