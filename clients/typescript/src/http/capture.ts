import type { OutgoingHttpHeaders, ServerResponse } from 'node:http';
import type { Answer } from './rules.js';
import { sentHeaders } from './rules.js';
import type { Answered, Reply } from './exchange.js';

type Mode = 'capturing' | 'passing' | 'ignoring';
type Callback = (error?: Error | null) => void;
type Arguments = readonly unknown[];
const METHODS = ['writeHead', 'write', 'end', 'destroy', 'flushHeaders', 'setHeader', 'appendHeader', 'removeHeader'];

/** Holds back what an application answers by a `ServerResponse`, until its claim is settled. */
export class Capture {
  /** What the application has answered. Rejects where it destroys the response instead. */
  readonly answered: Promise<Answered>;
  readonly #before: OutgoingHttpHeaders;
  readonly #originals = new Map<string, (...given: Arguments) => unknown>();
  // The application's headers, once another answer was sent in its place: they are still a part of what is stored.
  #late: Map<string, string[]> | undefined;
  #mode: Mode = 'capturing';
  #started = false;
  #ended = false;
  #parts: Buffer[] = [];
  #size = 0;
  #resolve!: (answered: Answered) => void;
  #reject!: (error: Error) => void;

  constructor(
    private readonly res: ServerResponse,
    private readonly answerMax: number,
  ) {
    this.answered = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    this.answered.catch(() => undefined); // Where the claim is not granted, no one waits for it.
    this.#before = res.getHeaders();
    const own = res as unknown as Record<string, (...given: Arguments) => unknown>;
    for (const name of METHODS) {
      const original = own[name];
      if (!original) continue; // appendHeader is not there before Node.js 18.3.
      this.#originals.set(name, original);
      own[name] = (...given: Arguments) => this.#called(name, given);
    }
    // What the application has written counts as sent for error handlers and other middleware.
    Object.defineProperty(res, 'headersSent', { configurable: true, get: () => this.#started });
    Object.defineProperty(res, 'writableEnded', { configurable: true, get: () => this.#ended });
  }

  /** Sends the reply. What the application does with the response afterwards has no effect on the connection. */
  send(reply: Reply): void {
    const { res } = this;
    if (!reply.own) this.#late = new Map(headersOf(res));
    this.release();
    if (!reply.own) this.#resetHeaders();
    if (!reply.own || !reply.whole) answerWith(res, reply.answer);
    else res.end(reply.answer.body);
    this.#mode = 'ignoring';
  }

  /** Lets everything pass that follows; nothing was held back, or the response is about to be destroyed. */
  release(): void {
    this.#mode = 'passing';
    for (const name of ['headersSent', 'writableEnded']) Reflect.deleteProperty(this.res, name);
  }

  /** The headers as they were before the application ran: those of other middleware stay. */
  #resetHeaders(): void {
    for (const name of this.res.getHeaderNames()) this.res.removeHeader(name);
    for (const [name, value] of Object.entries(this.#before)) {
      if (value !== undefined) this.res.setHeader(name, value);
    }
  }

  #called(name: string, given: Arguments): unknown {
    const original = this.#originals.get(name);
    if (this.#mode === 'passing' || (this.#mode === 'capturing' && name.endsWith('Header'))) {
      return original?.apply(this.res, [...given]);
    }
    if (name === 'writeHead') return this.#writeHead(given);
    if (name === 'setHeader') this.#late?.set(String(given[0]).toLowerCase(), [given[1]].flat().map(String));
    if (name === 'removeHeader') this.#late?.delete(String(given[0]).toLowerCase());
    if (name === 'appendHeader') {
      const earlier = this.#late?.get(String(given[0]).toLowerCase()) ?? [];
      this.#late?.set(String(given[0]).toLowerCase(), [...earlier, ...[given[1]].flat().map(String)]);
    }
    if (name === 'write') return this.#write(given);
    if (name === 'end') return this.#end(given);
    if (name === 'destroy') this.#reject(given[0] instanceof Error ? given[0] : new Error('the answer was destroyed'));
    return this.res;
  }

  #writeHead(given: Arguments): ServerResponse {
    const [status, ...rest] = given;
    const headers = rest.find((part) => typeof part === 'object' && part !== null);
    this.#started = true;
    this.res.statusCode = Number(status);
    if (typeof rest[0] === 'string') this.res.statusMessage = rest[0];
    for (const [name, value] of pairsOf(headers)) this.res.setHeader(name, value);
    return this.res;
  }

  #write([chunk, ...rest]: Arguments): boolean {
    this.#started = true;
    this.#keep(chunk, rest[0]);
    const callback = rest.find((part): part is Callback => typeof part === 'function');
    if (callback) process.nextTick(callback);
    return true;
  }

  #end(given: Arguments): ServerResponse {
    const callback = given.find((part): part is Callback => typeof part === 'function');
    if (callback) this.res.once('finish', callback);
    if (this.#ended) return this.res;
    this.#started = this.#ended = true;
    this.#keep(given[0], given[1]);
    this.#resolve(this.#answer());
    return this.res;
  }

  /** Keeps a part of the body; nothing is kept of a body that is too large. */
  #keep(chunk: unknown, encoding: unknown): void {
    const known = typeof encoding === 'string' ? (encoding as BufferEncoding) : 'utf8';
    const part = typeof chunk === 'string' ? Buffer.from(chunk, known) : chunk;
    if (!(part instanceof Uint8Array)) return;
    this.#size += part.length;
    if (this.#size > this.answerMax) this.#parts = [];
    else this.#parts.push(Buffer.from(part));
  }

  #answer(): Answered {
    const whole = this.#size <= this.answerMax;
    const headers: [string, string][] = [];
    for (const [name, values] of this.#late ?? headersOf(this.res)) {
      for (const value of values) headers.push([name, value]);
    }
    if (!whole) headers.push(['idempotency-body', 'omitted']);
    return { answer: { status: this.res.statusCode, headers, body: Buffer.concat(this.#parts) }, whole };
  }
}

function headersOf(res: ServerResponse): [string, string[]][] {
  return Object.entries(res.getHeaders()).map(([name, value]) => [name, [value].flat().map(String)]);
}

/** Answers a request with this, and with what other middleware has set. */
export function answerWith(res: ServerResponse, answer: Answer): void {
  res.statusCode = answer.status;
  for (const name of ['content-length', 'transfer-encoding']) res.removeHeader(name);
  const values = new Map<string, string[]>();
  for (const [name, value] of sentHeaders(answer)) values.set(name, [...(values.get(name) ?? []), value]);
  for (const [name, found] of values) res.setHeader(name, found.length === 1 ? String(found[0]) : found);
  res.end(answer.body);
}

/** The headers of `writeHead`: an object, a list of pairs, or a list of names and values in turn. */
function pairsOf(headers: unknown): [string, string | number | string[]][] {
  if (typeof headers !== 'object' || headers === null) return [];
  if (!Array.isArray(headers)) {
    return (Object.entries(headers) as [string, string | number | string[] | undefined][]).filter(
      (pair): pair is [string, string | number | string[]] => pair[1] !== undefined,
    );
  }
  const flat = headers.flat(Array.isArray(headers[0]) ? 1 : 0) as (string | number | string[])[];
  const found = new Map<string, string | number | string[]>();
  for (let at = 0; at + 1 < flat.length; at += 2) {
    const [name, value] = [String(flat[at]), flat[at + 1] ?? ''];
    const earlier = found.get(name);
    found.set(name, earlier === undefined ? value : [earlier, value].flat().map(String));
  }
  return [...found];
}
