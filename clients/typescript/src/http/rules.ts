import { createHash } from 'node:crypto';
import { Advice, type Outcome } from '../outcome.js';
import { GiveBack, InvalidField, Park, Retry, type Steer } from '../errors.js';
import { type Names, checkNames } from '../known-options.js';

/** Names and values of headers, the names in lower case. */
export type Headers = ReadonlyArray<readonly [string, string]>;

/** An answer of HTTP. */
export interface Answer {
  /** The status. */
  readonly status: number;
  /** The headers, their names in lower case. */
  readonly headers: Headers;
  /** The body; empty where there is none. */
  readonly body: Uint8Array;
}

/** What an answer says of the request's effect. */
export const Rule = {
  /** There was an effect, or the answer is final: a repeat gets this answer. */
  STORE: 'STORE',
  /** There was none: the key may be used again, also with another body. Once announced, the answer is stored. */
  RELEASE: 'RELEASE',
  /** It is unknown: a repeat runs again. Once announced, the request is parked for a person. */
  FAIL: 'FAIL',
} as const;

/** What an answer says of the request's effect: `STORE`, `RELEASE` or `FAIL`. */
export type Rule = (typeof Rule)[keyof typeof Rule];

/** The settings of a middleware; `Q` is the request of its framework. */
export interface HttpSettings<Q> {
  /**
   * Whose key it is: keys of two tenants never meet. By default there is one tenant. A request for which this does not
   * return text fails with `InvalidField`, and nothing is sent: its key might be that of another tenant.
   */
  tenant?: ((request: Q) => string | Promise<string>) | undefined;
  /**
   * The route of a request, such as `/orders/{id}`; the path by default. Give one wherever paths have ids, since the
   * ledger stores each source for ever. It must return text, too.
   */
  route?: ((request: Q) => string | Promise<string>) | undefined;
  /** The methods whose requests need a key; `POST` and `PATCH` by default. */
  methods?: readonly string[] | undefined;
  /** False: a request without a key passes without protection. By default it is refused. */
  required?: boolean | undefined;
  /** Milliseconds to wait while the first request is not done, 0 to 1 hour; 5 seconds by default. */
  waitMs?: number | undefined;
  /** What the status of an answer says of the effect; {@link defaultRule} by default. */
  rule?: ((status: number) => Rule) | undefined;
  /** The headers that are stored with an answer; `content-type`, `content-encoding` and `location` by default. */
  keptHeaders?: readonly string[] | undefined;
  /** The largest body of a request, in bytes; a larger one is answered 413. 1 MiB by default. */
  bodyMax?: number | undefined;
  /** The largest answer that is stored with its body, in bytes: at most the ledger's `result_bytes_max`. 16 KiB by default. */
  resultMax?: number | undefined;
  /** The largest answer that is held in memory, in bytes. Of a larger one only status and headers are sent. 8 MiB by default. */
  answerMax?: number | undefined;
  /** Makes the answer to a repeat whose body was not stored. By default it gets `Idempotency-Body: omitted`. */
  reread?: ((request: Q) => Answer | Promise<Answer>) | undefined;
}

const SETTINGS: Names<HttpSettings<unknown>> = {
  tenant: true,
  route: true,
  methods: true,
  required: true,
  waitMs: true,
  rule: true,
  keptHeaders: true,
  bodyMax: true,
  resultMax: true,
  answerMax: true,
  reread: true,
};

type Defaulted<T> = { readonly [K in keyof T]-?: NonNullable<T[K]> };

/** The settings with their defaults. */
export type Settings<Q> = Defaulted<Omit<HttpSettings<Q>, 'route' | 'reread'>> &
  Pick<HttpSettings<Q>, 'route' | 'reread'>;

const NO_EFFECT = new Set([400, 401, 403, 404, 409, 422, 429]);
const SOURCE_MAX = 256;
// Bare, as most clients send it: without the comma that joins two headers. Or a string of structured fields.
const KEY = /^(?:([!#-+\--~]{1,255})|"((?:[ !#-[\]-~]|\\["\\]){1,255})")$/;

/** 5xx fail; 400, 401, 403, 404, 409, 422 and 429 release; all others are stored. */
export function defaultRule(status: number): Rule {
  if (status >= 500) return Rule.FAIL;
  return NO_EFFECT.has(status) ? Rule.RELEASE : Rule.STORE;
}

/** The settings, with the defaults of those that are not given. Throws {@link InvalidField} for one that is not one. */
export function settingsOf<Q>(given: HttpSettings<Q>): Settings<Q> {
  checkNames(given, SETTINGS, 'the middleware');
  const kept = given.keptHeaders ?? ['content-type', 'content-encoding', 'location'];
  return {
    tenant: given.tenant ?? (() => ''),
    route: given.route,
    methods: given.methods ?? ['POST', 'PATCH'],
    required: given.required ?? true,
    waitMs: given.waitMs ?? 5_000,
    rule: given.rule ?? defaultRule,
    keptHeaders: kept.map((name) => name.toLowerCase()),
    bodyMax: given.bodyMax ?? 1 << 20,
    resultMax: given.resultMax ?? 16_384,
    answerMax: given.answerMax ?? 8 << 20,
    reread: given.reread,
  };
}

/** The key of a request by the value of its header; `undefined` where it is malformed. Two headers are joined by a comma. */
export function keyOf(header: string): string | undefined {
  const found = KEY.exec(header);
  return found?.[1] ?? found?.[2]?.replace(/\\(.)/g, '$1');
}

/** The path of a request without its query, decoded where it can be. */
export function pathOf(url: string): string {
  const path = url.replace(/[?#].*$/s, '');
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}

/** The source of a request. A hash where it would be too long: cut, it could be that of another tenant. */
export function sourceOf(tenant: string, method: string, route: string): string {
  const source = [tenant, method, route].map(encoded).join('/');
  return source.length <= SOURCE_MAX ? source : createHash('sha256').update(source).digest('hex');
}

/** The text that a setting has returned. JavaScript would make the text `undefined` of nothing: one tenant for all. */
export function textOf(setting: 'tenant' | 'route', returned: unknown): string {
  if (typeof returned !== 'string') {
    const found = returned === null ? 'null' : typeof returned;
    const hint = setting === 'tenant' ? '; place the middleware after the one that authenticates' : '';
    throw new InvalidField(setting, `must return text for each request, not ${found}${hint}`);
  }
  if (/\p{Surrogate}/u.test(returned)) throw new InvalidField(setting, 'has returned a lone surrogate');
  return returned;
}

/** Percent-encoded: only letters, digits, `_`, `.`, `-` and `~` stay. */
function encoded(part: string): string {
  return encodeURIComponent(part).replace(/[!'()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`);
}

/** How the claim of an answered request is settled; `undefined`: as completed. */
export function endingOf<Q>(settings: Settings<Q>, answer: Answer, announced: boolean): Steer | undefined {
  const rule = settings.rule(answer.status);
  if (rule === Rule.FAIL) return failure(`status ${answer.status}`, announced);
  if (rule === Rule.RELEASE && !announced) return new GiveBack(`status ${answer.status}`, { unpinFingerprint: true });
  return undefined;
}

/** How the claim of a request is settled whose effect is unknown. */
export function failure(reason: string, announced: boolean): Steer {
  return announced ? new Park(reason) : new Retry(reason, { afterMs: 0 });
}

/** What the ledger stores of an answer: a line of JSON, then the body, unless it is too large or incomplete. */
export function stored<Q>(settings: Settings<Q>, answer: Answer, whole: boolean): Uint8Array {
  const kept = answer.headers.filter(([name]) => settings.keptHeaders.includes(name));
  const head = Buffer.from(`${JSON.stringify([answer.status, kept])}\n`);
  if (whole && head.length + answer.body.length <= settings.resultMax) return Buffer.concat([head, answer.body]);
  return Buffer.from(JSON.stringify([answer.status, kept, 'omitted']));
}

/** The answer to a repeat, and whether its body is left out. The effect happened also where no result is stored. */
export function replayed(outcome: Outcome): { answer: Answer; omitted: boolean } {
  const result = Buffer.from(outcome.result?.length ? outcome.result : '[200, [], "omitted"]');
  const end = result.indexOf('\n');
  const head = JSON.parse(result.subarray(0, end < 0 ? undefined : end).toString()) as [
    number,
    [string, string][],
    ...string[],
  ];
  const [status, kept, ...omitted] = head;
  const headers: [string, string][] = [...kept, ['idempotency-replayed', 'true']];
  if (omitted.length > 0) headers.push(['idempotency-body', 'omitted']);
  const body = end < 0 ? new Uint8Array() : result.subarray(end + 1);
  return { answer: { status, headers, body }, omitted: omitted.length > 0 };
}

/** The answer where there is none of the application: it did not run, or its claim was lost amid it. */
export function refused(outcome: Outcome): Answer {
  if (outcome.reason === 'fingerprint_mismatch') return problem(422, 'this Idempotency-Key was used with another body');
  if (outcome.advice === Advice.DEAD_LETTER) {
    return problem(500, 'an earlier request may have had its effect: a person must find out');
  }
  if (outcome.reason === 'in_progress' || outcome.reason === 'backoff') {
    return problem(409, 'the first request with this Idempotency-Key is not done yet', outcome.delayMs);
  }
  return problem(503, 'whether this request was processed cannot be known now: repeat it', outcome.delayMs);
}

/** An answer of the middleware itself (RFC 9457). */
export function problem(status: number, title: string, retryAfterMs = 0): Answer {
  const headers: [string, string][] = [['content-type', 'application/problem+json']];
  if (retryAfterMs > 0) headers.push(['retry-after', String(Math.ceil(retryAfterMs / 1_000))]);
  return { status, headers, body: Buffer.from(JSON.stringify({ title, status })) };
}

/** The key is malformed. */
export const MALFORMED = problem(
  400,
  'Idempotency-Key must be there once: 1 to 255 visible ASCII characters, or a quoted string',
);
/** The request has no key, and needs one. */
export const MISSING = problem(400, 'this request needs the header Idempotency-Key');
/** The client of the ledger closes. */
export const CLOSING = problem(503, 'this server is shutting down', 1_000);
/** The claim was lost amid the request. */
export const LOST = problem(503, 'whether this request was processed cannot be known now: repeat it', 1_000);

/** The headers as they are sent: the length is that of the body. */
export function sentHeaders(answer: Answer): Headers {
  const headers = answer.headers.filter(([name]) => name !== 'content-length' && name !== 'transfer-encoding');
  if (answer.status === 204 || answer.status === 304) return headers;
  return [...headers, ['content-length', String(answer.body.length)]];
}
