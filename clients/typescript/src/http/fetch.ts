import type { Ledger } from '../ledger.js';
import { Exchange } from './exchange.js';
import type { Answer, HttpSettings } from './rules.js';
import { sentHeaders } from './rules.js';

/** A handler of the Fetch API: of Next.js, Hono, SvelteKit, Remix, and of servers that take such functions. */
export type FetchHandler<A extends readonly unknown[]> = (request: Request, ...more: A) => Promise<Response> | Response;

/**
 * The handler with one effect for each `Idempotency-Key`.
 *
 * `ledger`: a client whose consumer is the name of the API; close it when the server stops. The handler finds its claim by
 * `claimOf(request)` of the request that it is given. What it throws is thrown after the claim is settled.
 */
export function fetchIdempotency<A extends readonly unknown[]>(
  ledger: Ledger,
  handler: FetchHandler<A>,
  settings: HttpSettings<Request> = {},
): (request: Request, ...more: A) => Promise<Response> {
  const exchange = new Exchange(ledger, settings);
  const { bodyMax, answerMax } = exchange.settings;
  return async (request, ...more) => {
    const { method, headers, url } = request;
    const asked = { request, method, url: new URL(url).pathname, header: headers.get('idempotency-key') };
    const key = exchange.keyOf(asked);
    if (key === undefined) return handler(request, ...more);
    if (typeof key !== 'string') return responseOf(key);
    const named = await exchange.named(asked, key);
    const body = await upTo(request.clone().body, bodyMax);
    if (!body) return responseOf(exchange.tooLarge());
    let own: Response | undefined;
    const reply = await exchange.processed(request, named, body, async () => {
      const response = await handler(request, ...more);
      const found = await upTo(response.body, answerMax);
      const pairs = [...response.headers, ...(found ? [] : [['idempotency-body', 'omitted'] as [string, string]])];
      const answer = { status: response.status, headers: pairs, body: found ?? new Uint8Array() };
      own = responseOf(answer, response.statusText);
      return { answer, whole: found !== undefined };
    });
    return reply.own && own ? own : responseOf(reply.answer);
  };
}

/** The bytes of a stream; `undefined` if there are more than `most`, and the rest is not read. */
async function upTo(stream: ReadableStream<Uint8Array> | null, most: number): Promise<Uint8Array | undefined> {
  const parts: Uint8Array[] = [];
  let size = 0;
  const reader = stream?.getReader();
  for (let part = await reader?.read(); part && !part.done; part = await reader?.read()) {
    size += part.value.length;
    if (size > most) {
      // Not waited for: of a request that was cloned it ends only where both copies are cancelled.
      reader?.cancel().catch(() => undefined);
      return undefined;
    }
    parts.push(part.value);
  }
  return Buffer.concat(parts);
}

function responseOf(answer: Answer, statusText = ''): Response {
  const body = [204, 205, 304].includes(answer.status) ? null : answer.body;
  const headers = sentHeaders(answer).map(([name, value]): [string, string] => [name, value]);
  return new Response(body, { status: answer.status, statusText, headers });
}
