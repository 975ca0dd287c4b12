/**
 * The ledger as the persistence layer of the idempotency utility of Powertools for AWS Lambda.
 *
 * @packageDocumentation
 */
import {
  IdempotencyItemAlreadyExistsError,
  IdempotencyItemNotFoundError,
  IdempotencyRecordStatus,
  IdempotencyValidationError,
} from '@aws-lambda-powertools/idempotency';
import { BasePersistenceLayer, IdempotencyRecord } from '@aws-lambda-powertools/idempotency/persistence';
import type { Claim } from './claim.js';
import { Doubtful, LedgerError, NoResult } from './errors.js';
import { Fingerprint, Key } from './key.js';
import { type Names, checkNames } from './known-options.js';
import type { Ledger } from './ledger.js';
import { Advice, type Outcome } from './outcome.js';

type Response = IdempotencyRecord['responseData'];
type Status = (typeof IdempotencyRecordStatus)[keyof typeof IdempotencyRecordStatus];

/** The options of a `LedgerPersistenceLayer`. */
export interface PowertoolsOptions {
  /** The client whose consumer is the name of the function. */
  ledger: Ledger;
  /** The source of the keys, 1 to 256 bytes; `powertools` by default. The id of a key is that of Powertools, a digest. */
  source?: string | undefined;
  /** For how many milliseconds to wait while another invocation runs, 0 (default) to 1 hour. */
  waitMs?: number | undefined;
}

const OPTIONS: Names<PowertoolsOptions> = { ledger: true, source: true, waitMs: true };

/** The function that was made idempotent has thrown an error; what it means is the option `unexpected` of the ledger. */
export class FunctionFailed extends LedgerError {
  /** The name of the class. */
  override readonly name = 'FunctionFailed';
}

/**
 * A persistence layer for `makeIdempotent`, `idempotent` and `makeHandlerIdempotent` of Powertools.
 *
 * A repeated invocation is answered the first response; the lease is renewed while the function runs; where the ledger is
 * away the function does not run. What Powertools' interface cannot promise, and `Ledger.process` does:
 *
 * - It carries no token and no `idempotencyKey`, so that the function cannot fence its effect, and no signal, so that it does
 *   not learn of a lost claim. Two attempts of one key in one process cannot be told apart: both end in doubt.
 * - It does not hand on the function's error: each one means what the option `unexpected` of the ledger says. By default the
 *   message is parked, and later invocations fail until a person has looked. With `unexpected: Retry` the next one runs, as
 *   with the layers of Powertools: only where no error of the function can follow its effect.
 * - Powertools' key is a digest of what was decoded, MD5 by default, and not of the raw body.
 * - How long responses are kept is the policy's, and not `expiresAfterSeconds`. A response above 16 KiB is not stored: a repeat
 *   fails with `NoResult`.
 */
export class LedgerPersistenceLayer extends BasePersistenceLayer {
  readonly #options: PowertoolsOptions;
  readonly #claims = new Map<string, Claim[]>();

  constructor(options: PowertoolsOptions) {
    super();
    checkNames(options, OPTIONS, 'LedgerPersistenceLayer');
    this.#options = options;
  }

  /** Claims the key for an invocation. */
  protected override async _putRecord(record: IdempotencyRecord): Promise<void> {
    const { ledger, source = 'powertools', waitMs } = this.#options;
    const { idempotencyKey, payloadHash } = record;
    const fingerprint = payloadHash ? new Fingerprint(Buffer.from(payloadHash)) : undefined;
    const claim = await ledger.claim(Key.of(source, idempotencyKey), { fingerprint, waitMs });
    if (!claim.granted) throw refusal(await claim.end(), record);
    this.#claims.set(idempotencyKey, [...(this.#claims.get(idempotencyKey) ?? []), claim]);
  }

  /** Completes the claim of an invocation with its response. */
  protected override async _updateRecord(record: IdempotencyRecord): Promise<void> {
    const claim = await this.#taken(record.idempotencyKey);
    const { responseData } = record;
    await claim.complete(responseData === undefined ? undefined : JSON.stringify(responseData));
    const outcome = await claim.end();
    if (outcome.advice !== Advice.ACK) throw new NoResult(outcome);
  }

  /** Fails the claim of an invocation whose function has thrown an error. */
  protected override async _deleteRecord(record: IdempotencyRecord): Promise<void> {
    const claim = await this.#taken(record.idempotencyKey);
    await claim.fail(new FunctionFailed('the function has thrown an error'));
    await claim.end();
  }

  /** Throws: every record that Powertools asks for was given with the error of `_putRecord`. */
  protected override _getRecord(): Promise<IdempotencyRecord> {
    return Promise.reject(new IdempotencyItemNotFoundError('the ledger hands records out by a claim alone'));
  }

  /** The only claim of a key. Of several none is settled: whose invocation has ended is not known. */
  async #taken(idempotencyKey: string): Promise<Claim> {
    const [claim, ...others] = this.#claims.get(idempotencyKey) ?? [];
    this.#claims.delete(idempotencyKey);
    if (!claim) throw new LedgerError('the claim of this invocation was not made here, or has ended in doubt');
    if (others.length === 0) return claim;
    for (const each of [claim, ...others]) {
      await each.fail(new Doubtful('two attempts of one key in one process'));
      await each.end();
    }
    throw new LedgerError('two attempts of one key ran in this process: both have ended in doubt');
  }
}

/** What Powertools understands of a claim that was not granted. */
function refusal(outcome: Outcome, { idempotencyKey, payloadHash = '' }: IdempotencyRecord): Error {
  const existing = (status: Status, responseData?: Response) => {
    const record = new IdempotencyRecord({ idempotencyKey, status, responseData, payloadHash });
    return new IdempotencyItemAlreadyExistsError('the ledger knows this key', record);
  };
  if (outcome.replayed && outcome.result !== undefined) {
    const text = Buffer.from(outcome.result).toString();
    return existing(IdempotencyRecordStatus.COMPLETED, text === '' ? undefined : (JSON.parse(text) as Response));
  }
  if (outcome.reason === 'in_progress' || outcome.reason === 'backoff')
    return existing(IdempotencyRecordStatus.INPROGRESS);
  if (outcome.reason === 'fingerprint_mismatch') {
    return new IdempotencyValidationError('the payload is another one than that of the first invocation');
  }
  return new NoResult(outcome);
}
