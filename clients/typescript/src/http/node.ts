import type { IncomingMessage, ServerResponse } from 'node:http';
import { LedgerError } from '../errors.js';
import type { Ledger } from '../ledger.js';
import { Capture, answerWith } from './capture.js';
import { type Asked, Exchange } from './exchange.js';
import type { HttpSettings } from './rules.js';

/** A request of Node.js, with what frameworks may have put there. */
type NodeRequest = IncomingMessage & { rawBody?: unknown; body?: unknown; originalUrl?: unknown };

/** Continues with what comes after a middleware. */
export type Next = (error?: unknown) => void;

/** Middleware in the form of Express, Connect and middie. */
export type Middleware<Q extends IncomingMessage> = (req: Q, res: ServerResponse, next: Next) => void;

/**
 * Middleware for Express, and for everything else that takes `(req, res, next)`: each request with an `Idempotency-Key`
 * is processed once.
 *
 * `ledger`: a client whose consumer is the name of the API; close it when the server stops. Mount the middleware before
 * body parsers, since the fingerprint is of the raw body; behind one, keep that as `req.rawBody`. The application finds
 * its claim by `claimOf(req)`. A client that goes away does not cancel a request that is processed; the loss of the claim
 * is answered 503, and aborts `claimOf(req).signal`.
 */
export function expressIdempotency<Q extends IncomingMessage = IncomingMessage>(
  ledger: Ledger,
  settings: HttpSettings<Q> = {},
): Middleware<Q> {
  const exchange = new Exchange(ledger, settings);
  return (req, res, next) => void handled(exchange, req, req, res, next, () => undefined).catch(next);
}

/** What Fastify gives a hook, as far as it is needed. */
export interface FastifyRequestLike {
  /** The request of Node.js. */
  readonly raw: IncomingMessage;
}

/** What Fastify gives a hook, as far as it is needed. */
export interface FastifyReplyLike {
  /** The response of Node.js. */
  readonly raw: ServerResponse;
  /** Leaves the answer to who called it. */
  hijack(): unknown;
}

/**
 * A hook for Fastify: `app.addHook('onRequest', fastifyIdempotency(ledger))`. It is otherwise as `expressIdempotency`; the
 * application finds its claim by `claimOf(request)`.
 */
export function fastifyIdempotency<Q extends FastifyRequestLike = FastifyRequestLike>(
  ledger: Ledger,
  settings: HttpSettings<Q> = {},
): (request: Q, reply: FastifyReplyLike, done: (error?: Error) => void) => void {
  const exchange = new Exchange(ledger, settings);
  return (request, reply, done) => {
    const next: Next = (error) => (error instanceof Error ? done(error) : done());
    handled(exchange, request, request.raw, reply.raw, next, () => reply.hijack()).catch(next);
  };
}

/** `takeOver` is called before the middleware answers in the application's place. */
async function handled<Q>(
  exchange: Exchange<Q>,
  request: Q,
  req: NodeRequest,
  res: ServerResponse,
  next: Next,
  takeOver: () => unknown,
): Promise<void> {
  const { method = '', url = '', originalUrl, headers } = req;
  const header = headers['idempotency-key'];
  const path = typeof originalUrl === 'string' ? originalUrl : url;
  const asked: Asked<Q> = { request, method, url: path, header: Array.isArray(header) ? header.join(', ') : header };
  const key = exchange.keyOf(asked);
  if (key === undefined) {
    next();
    return;
  }
  const body = typeof key === 'string' ? await bodyOf(req, exchange.settings.bodyMax) : undefined;
  if (typeof key !== 'string' || body === undefined) {
    takeOver();
    answerWith(res, typeof key === 'string' ? exchange.tooLarge() : key);
    return;
  }
  const named = await exchange.named(asked, key);
  const capture = new Capture(res, exchange.settings.answerMax);
  const application = { runs: false };
  try {
    const reply = await exchange.processed(request, named, body, () => {
      application.runs = true;
      next();
      return capture.answered;
    });
    if (!application.runs) takeOver();
    capture.send(reply);
  } catch (error) {
    capture.release();
    // An application that runs throws no error here, but destroys its response.
    if (!application.runs) throw error;
    res.destroy(error instanceof Error ? error : undefined);
  }
}

/** The raw body, which is left for the application to read; `undefined` if it is larger than `most`. */
async function bodyOf(req: NodeRequest, most: number): Promise<Uint8Array | undefined> {
  const kept = [req.rawBody, req.body].find((body): body is Uint8Array => body instanceof Uint8Array);
  if (kept) return kept.length <= most ? kept : undefined;
  if (req.readableDidRead) {
    throw new LedgerError(
      'the body was read already: mount the middleware before body parsers, or keep the raw body as req.rawBody',
    );
  }
  if (req.readableEnded) return new Uint8Array(); // Another middleware has read a body without bytes.
  if (req.destroyed) throw new LedgerError('the client has gone before its request was read');
  return Number(req.headers['content-length'] ?? 0) > most ? undefined : read(req, most);
}

function read(req: IncomingMessage, most: number): Promise<Uint8Array | undefined> {
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = [];
    let size = 0;
    const failed = (error?: Error) => end(() => reject(error ?? new Error('the client has gone amid its request')));
    const end = (finish: () => void) => {
      req.off('readable', readable).off('end', empty).off('error', failed).off('close', failed);
      finish();
    };
    // Of a body without bytes nothing but its end may be reported.
    const empty = () => end(() => resolve(new Uint8Array()));
    const readable = () => {
      for (let part = req.read() as Buffer | null; part !== null; part = req.read() as Buffer | null) {
        parts.push(part);
        size += part.length;
      }
      if (size > most) {
        end(() => resolve(undefined));
      } else if (req.complete) {
        // Before Node.js reports the end, which it does in the next tick: so the application reads the body as it came.
        const whole = Buffer.concat(parts);
        end(() => {
          if (size > 0) req.unshift(whole);
          resolve(whole);
        });
      }
    };
    req.on('readable', readable).on('end', empty).on('error', failed).on('close', failed);
  });
}
