// The HTTP application of the subject, behind the middleware for the framework that LEDGER_SHELL names.
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const packages = createRequire(join(process.env.LEDGER_PACKAGE, 'package.json'));
const HEADERS = { 'content-type': 'text/plain', location: '/orders/1', 'x-private': 'not stored' };

const content = (step) => ('bytes' in step ? 'x'.repeat(step.bytes) : (step.body ?? ''));
const seconds = (value) => (value === undefined ? undefined : value * 1000);

/** Takes the steps of a request; resolves to the answer. */
function application({ say, going }) {
  return async (headers, claim) => {
    const call = headers['x-call'] ?? '';
    for (const step of JSON.parse(headers['x-steps'] ?? '[]')) {
      if (step.do === 'effect') {
        say('effect', { call, id: call, token: String(claim?.token ?? 0), idempotency_key: claim?.idempotencyKey ?? call });
        await going.wait(call);
      } else if (step.do === 'pause') {
        say('paused', { call });
        await going.wait(call, claim?.signal);
      } else if (step.do === 'announce') {
        await claim.announce();
      } else if (step.do === 'raise') {
        throw new TypeError('no answer');
      } else if (step.do === 'answer') {
        return { status: step.status, headers: HEADERS, body: content(step) };
      }
    }
    return { status: 204, headers: {}, body: '' };
  };
}

/** Each returns a server. */
const SHELLS = {
  express({ http, ledger, settings, tenant, answer }) {
    const express = packages('express');
    const app = express();
    const tenantOf = (req) => tenant(req.headers);
    app.use(http.expressIdempotency(ledger, { ...settings, tenant: tenantOf }));
    app.use(express.raw({ type: () => true, limit: '10mb' }));
    app.use(async (req, res) => {
      const { status, headers, body } = await answer(req.headers, http.claimOf(req));
      res.status(status).set(headers).end(body);
    });
    app.use((error, _req, res, _next) => res.status(500).end(error.name));
    return createServer(app);
  },

  async fastify({ http, ledger, settings, tenant, answer }) {
    const app = packages('fastify')({ bodyLimit: 10 << 20 });
    app.removeAllContentTypeParsers();
    app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
    app.addHook('onRequest', http.fastifyIdempotency(ledger, { ...settings, tenant: (request) => tenant(request.headers) }));
    app.all('/*', async (request, reply) => {
      const { status, headers, body } = await answer(request.headers, http.claimOf(request));
      return reply.code(status).headers(headers).send(body);
    });
    await app.ready();
    return app.server;
  },

  fetch({ http, ledger, settings, tenant, answer }) {
    const tenantOf = (request) => tenant(Object.fromEntries(request.headers));
    const handler = http.fetchIdempotency(
      ledger,
      async (request) => {
        await request.arrayBuffer();
        const { status, headers, body } = await answer(Object.fromEntries(request.headers), http.claimOf(request));
        return new Response(status === 204 ? null : body, { status, headers });
      },
      { ...settings, tenant: tenantOf },
    );
    return createServer(async (req, res) => {
      const parts = [];
      for await (const part of req) parts.push(part);
      const { method, headers } = req;
      const request = new Request(`http://localhost${req.url}`, { method, headers, body: Buffer.concat(parts) });
      try {
        const response = await handler(request);
        res.writeHead(response.status, Object.fromEntries(response.headers));
        res.end(Buffer.from(await response.arrayBuffer()));
      } catch {
        res.writeHead(500).end();
      }
    });
  },
};

/** Serves the application, and says where. */
export async function serve(command, { il, http, say, going }) {
  const { endpoint, consumer, wait, required, result_max, body_max, reread } = command;
  const again = () => ({ status: 200, headers: [['content-type', 'text/plain']], body: Buffer.from('read again') });
  const settings = {
    waitMs: seconds(wait),
    required,
    resultMax: result_max,
    bodyMax: body_max,
    reread: reread ? again : undefined,
  };
  const ledger = new il.Ledger({ consumer, endpoint });
  const tenant = (headers) => headers['x-tenant'] ?? '';
  const shell = SHELLS[process.env.LEDGER_SHELL ?? 'express'];
  const server = await shell({ http, ledger, settings, tenant, answer: application({ say, going }) });
  server.listen(0, '127.0.0.1', () => say('serving', { address: `127.0.0.1:${server.address().port}` }));
}
