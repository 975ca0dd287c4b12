import type { Claim } from '../claim.js';
import type { ClaimLost, Steer } from '../errors.js';
import { Closed, typeName } from '../errors.js';
import { Key } from '../key.js';
import type { Ledger } from '../ledger.js';
import type { Answer, HttpSettings, Settings } from './rules.js';
import {
  CLOSING,
  LOST,
  MALFORMED,
  MISSING,
  endingOf,
  failure,
  keyOf,
  pathOf,
  problem,
  refused,
  replayed,
  settingsOf,
  sourceOf,
  stored,
  textOf,
} from './rules.js';

/** A request, as every framework can name it. */
export interface Asked<Q> {
  readonly request: Q;
  readonly method: string;
  /** The URL from its path on. */
  readonly url: string;
  /** The value of `Idempotency-Key`; `undefined` or `null` without one. */
  readonly header: string | null | undefined;
}

/** What the application has answered, and whether its body is whole. */
export interface Answered {
  readonly answer: Answer;
  readonly whole: boolean;
}

/** What is sent to the client: the application's own answer, or one in its place. */
export interface Reply extends Answered {
  readonly own: boolean;
}

const claims = new WeakMap<object, Claim>();

/**
 * The claim under which a request is processed; `undefined` where it is not claimed, as without a key.
 *
 * `request`: what the application is given (of Fastify the `raw` request does as well).
 */
export function claimOf(request: object): Claim | undefined {
  return claims.get(request) ?? ('raw' in request ? claims.get(request.raw as object) : undefined);
}

/** What becomes of requests and of their answers: all frameworks share it. */
export class Exchange<Q> {
  readonly settings: Settings<Q>;

  constructor(
    private readonly ledger: Ledger,
    settings: HttpSettings<Q>,
  ) {
    this.settings = settingsOf(settings);
  }

  /** The key of a request; an answer that refuses it; `undefined` where it passes without a claim. */
  keyOf(asked: Asked<Q>): string | Answer | undefined {
    const { methods, required } = this.settings;
    if (!methods.includes(asked.method)) return undefined;
    if (asked.header === undefined || asked.header === null) return required ? MISSING : undefined;
    return keyOf(asked.header) ?? MALFORMED;
  }

  /** The answer to a request whose body is too large. */
  tooLarge(): Answer {
    return problem(413, `a body may have ${this.settings.bodyMax} bytes`);
  }

  /** The key in the ledger: the name of the request's tenant, method and route, and its `Idempotency-Key`. */
  async named(asked: Asked<Q>, key: string): Promise<Key> {
    const { tenant, route } = this.settings;
    const at = route ? textOf('route', await route(asked.request)) : pathOf(asked.url);
    return Key.of(sourceOf(textOf('tenant', await tenant(asked.request)), asked.method, at), key);
  }

  /**
   * Processes a request once. `run` lets the application answer. Rejects with the application's own error, after its
   * claim is settled. A lost claim is answered immediately; what the application answers after that is still settled.
   */
  async processed(request: Q, key: Key, body: Uint8Array, run: () => Promise<Answered>): Promise<Reply> {
    const { waitMs, reread } = this.settings;
    const state: { own?: Answered; thrown?: { error: unknown } } = {};
    const outcome = await new Promise<'lost' | Awaited<ReturnType<Ledger['process']>>>((resolve, reject) => {
      const handler = (claim: Claim, signal: AbortSignal) => {
        signal.addEventListener('abort', () => {
          if (!state.own) resolve('lost');
        });
        claims.set(request as object, claim);
        return this.#handled(claim, run, state);
      };
      this.ledger.process(key, handler, { body, waitMs }).then(resolve, reject);
    }).catch((error: unknown) => {
      if (error instanceof Closed) return undefined;
      throw error;
    });
    if (outcome === undefined) return { answer: CLOSING, whole: true, own: false };
    // What the application has answered is sent whatever became of its claim: the effect happened.
    if (state.own) return { ...state.own, own: true };
    if (outcome === 'lost') return { answer: LOST, whole: true, own: false };
    if (state.thrown) throw state.thrown.error;
    if (!outcome.replayed) return { answer: refused(outcome), whole: true, own: false };
    const { answer, omitted } = replayed(outcome);
    if (!omitted || !reread) return { answer, whole: true, own: false };
    const again = await reread(request);
    return {
      answer: { ...again, headers: [...again.headers, ['idempotency-replayed', 'true']] },
      whole: true,
      own: false,
    };
  }

  async #handled(
    claim: Claim,
    run: () => Promise<Answered>,
    state: { own?: Answered; thrown?: { error: unknown } },
  ): Promise<Uint8Array> {
    let answered: Answered;
    try {
      answered = await run();
    } catch (error) {
      state.thrown = { error };
      throw steered(claim, failure(typeName(error), claim.announced));
    }
    const { answer, whole } = answered;
    state.own = answered;
    const steer = endingOf(this.settings, answer, claim.announced);
    if (steer) throw steered(claim, steer);
    return stored(this.settings, answer, whole);
  }
}

/** A request whose claim is lost settles nothing, unless it has completed. */
function steered(claim: Claim, steer: Steer): Error {
  return claim.signal.aborted ? (claim.signal.reason as ClaimLost) : steer;
}
