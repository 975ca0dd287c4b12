/**
 * `Idempotency-Key` for Express, Fastify and handlers of the Fetch API: a repeated request gets the first answer, and has
 * one effect. None of the frameworks is needed to import this.
 *
 * @packageDocumentation
 */
export { claimOf } from './exchange.js';
export { type FetchHandler, fetchIdempotency } from './fetch.js';
export {
  type FastifyReplyLike,
  type FastifyRequestLike,
  type Middleware,
  type Next,
  expressIdempotency,
  fastifyIdempotency,
} from './node.js';
export { type Answer, type Headers, type HttpSettings, Rule, defaultRule } from './rules.js';
