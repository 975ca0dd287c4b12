import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { create } from '@bufbuild/protobuf';
import { type Timestamp, timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { ConnectionOptions } from './connection.js';
import type { Unexpected } from './core/delivery.js';
import { durationOf } from './core/world.js';
import { Doubtful, InvalidField, Park, Retry } from './errors.js';
import type { ClaimNextRequest, ClaimRequest, StoreRequest } from './gen/idempotency/ledger/v1/ledger_pb.js';
import {
  ClaimNextRequestSchema,
  ClaimRequestSchema,
  EntryKeySchema,
  StoreRequestSchema,
} from './gen/idempotency/ledger/v1/ledger_pb.js';
import { Fingerprint, Key, checkedText } from './key.js';
import { type Names, checkNames } from './known-options.js';
import { type Message, checkMessage, sentOf } from './message.js';
import type { Log } from './report.js';

const DAY = 86_400_000;
const HOUR = 3_600_000;

/** The options of a `Ledger`. */
export interface LedgerOptions extends ConnectionOptions {
  /** The group that processes, 1 to 128 bytes of UTF-8: not a process. Required. */
  consumer: string;
  /**
   * Milliseconds that a claim is held unless it is renewed, 1 second to 1 day; it is renewed at a third of that.
   * By default the policy's lease, 30 seconds. The policy may bound it further.
   */
  leaseMs?: number | undefined;
  /** Who asks, for people who read the ledger, 1 to 128 bytes. By default host and process. */
  owner?: string | undefined;
  /**
   * What an error of a handler means that is not a steering one: `Park` (default: a person looks), `Retry` (only where
   * no error of the handler can follow its effect), or `Doubtful` (only with a guard or a fence).
   */
  unexpected?: Unexpected | undefined;
  /** True: process also where an earlier attempt had announced its effect. By default such a message is parked. */
  repeatAnnounced?: boolean | undefined;
  /** The longest time in milliseconds that a handler takes. It is compared with `ackWaitMs`, and nothing else. */
  handlerBudgetMs?: number | undefined;
  /** How many milliseconds the broker waits for an acknowledgement. A longer `handlerBudgetMs` is warned of. */
  ackWaitMs?: number | undefined;
  /** Takes what the package has to say, at most a line a second of each kind. By default `console.warn`. */
  log?: Log | undefined;
}

/** What a call of `process` or `claim` may say of the delivery. */
export interface DeliveryOptions {
  /** The broker's raw body, of which the fingerprint is made. Give this or a `fingerprint`, not both. */
  body?: Uint8Array | undefined;
  /** The digest of the body. By default none, so that another body under the same key is not found out. */
  fingerprint?: Fingerprint | undefined;
  /** When the producer made the message. By default not stated. */
  occurredAt?: Date | undefined;
  /** What kind of message it is: a label of metrics. By default empty. */
  eventType?: string | undefined;
  /**
   * For how many milliseconds to wait while another attempt holds the message, 0 (default) to 1 hour; the server bounds
   * it further. For callers who need the result; a broker's consumer needs none.
   */
  waitMs?: number | undefined;
  /**
   * Ends the wait of the caller, not the effect: a claim that is not granted yet is given back, and a handler that runs
   * is left to end and is settled; `close` waits for it.
   */
  signal?: AbortSignal | undefined;
}

/** What a call of `store` may say of the message. */
export interface StoreOptions {
  /** The digest of the body, instead of that of the payload. */
  fingerprint?: Fingerprint | undefined;
  /** When the producer made the message. By default not stated. */
  occurredAt?: Date | undefined;
}

/** The options of `work`. */
export interface WorkOptions {
  /** Ends the work, not the effects that run: the `signal` of a `Shutdown`. By default `close` of the ledger does. */
  signal?: AbortSignal | undefined;
  /** How many handlers run at the same time, 1 (default) to 1000. */
  concurrency?: number | undefined;
  /** For how many milliseconds running handlers are waited for at the end; 20 seconds by default. */
  graceMs?: number | undefined;
}

const STORE: Names<StoreOptions> = { fingerprint: true, occurredAt: true };
const WORK: Names<WorkOptions> = { signal: true, concurrency: true, graceMs: true };
const LEDGER: Names<LedgerOptions> = {
  consumer: true,
  endpoint: true,
  tokenFile: true,
  caFile: true,
  clientCertFile: true,
  clientKeyFile: true,
  leaseMs: true,
  owner: true,
  unexpected: true,
  repeatAnnounced: true,
  handlerBudgetMs: true,
  ackWaitMs: true,
  log: true,
};
const DELIVERY: Names<DeliveryOptions> = {
  body: true,
  fingerprint: true,
  occurredAt: true,
  eventType: true,
  waitMs: true,
  signal: true,
};

/** Throws {@link InvalidField} for an option of a delivery that is not one. */
export function checkDelivery(options: DeliveryOptions): void {
  checkNames(options, DELIVERY, 'process and claim');
}

/** Throws {@link InvalidField} for an option beyond its bound, or that is not one; warns of a budget that the broker does not wait for. */
export function checkOptions(options: LedgerOptions): void {
  checkNames(options, LEDGER, 'new Ledger');
  const { consumer, owner, leaseMs, unexpected, handlerBudgetMs, ackWaitMs } = options;
  checkedText('key.consumer', consumer, 128);
  if (owner !== undefined) checkedText('owner', owner, 128);
  if (leaseMs !== undefined && !(leaseMs >= 1_000 && leaseMs <= DAY)) {
    throw new InvalidField(
      'leaseMs',
      `${leaseMs} ms is not within 1 second and 1 day; the policy may bound it further`,
    );
  }
  if (unexpected !== undefined && ![Park, Retry, Doubtful].includes(unexpected)) {
    throw new InvalidField('unexpected', 'must be Park, Retry or Doubtful');
  }
  if (handlerBudgetMs !== undefined && ackWaitMs !== undefined && handlerBudgetMs > ackWaitMs) {
    process.emitWarning(
      `${consumer}: a handler may take ${handlerBudgetMs} ms, and the broker waits ${ackWaitMs} ms for an ` +
        'acknowledgement: it will deliver messages again whose handler still runs. Raise its wait.',
      'IdempotencyLedgerWarning',
    );
  }
}

/** The Claim of a delivery: with a new claim_id, so that it is never taken for another delivery (rule 1). */
export function requestOf(options: LedgerOptions, key: Key, delivery: DeliveryOptions): ClaimRequest {
  const { body, occurredAt, waitMs = 0, eventType = '' } = delivery;
  const named = namesOf(options, key);
  if (body !== undefined && delivery.fingerprint !== undefined) {
    throw new InvalidField('fingerprint', 'give the raw body or its fingerprint, not both');
  }
  if (!(waitMs >= 0 && waitMs <= HOUR)) {
    throw new InvalidField('waitMs', `${waitMs} ms is not within 0 and 1 hour; the server bounds it further`);
  }
  const fingerprint = body === undefined ? delivery.fingerprint : Fingerprint.of(body);
  const request = create(ClaimRequestSchema, {
    key: named,
    claimId: randomUUID(),
    owner: ownerOf(options),
    eventType,
  });
  if (fingerprint) request.fingerprint = fingerprint.digest;
  if (options.leaseMs !== undefined) request.lease = durationOf(options.leaseMs);
  if (waitMs > 0) request.wait = durationOf(waitMs);
  if (occurredAt) request.occurredAt = instantOf(occurredAt);
  return request;
}

/** The Store of a message; its fingerprint is that of the payload unless another one is given (rule 20). */
export function storeOf(options: LedgerOptions, key: Key, message: Message, more: StoreOptions): StoreRequest {
  checkNames(more, STORE, 'store');
  const named = namesOf(options, key);
  checkMessage(message);
  if (key.replayRun) {
    throw new InvalidField('key.replay_run', 'must be empty: a message of a replay run is not stored');
  }
  const { digest } = more.fingerprint ?? Fingerprint.of(message.payload);
  const request = create(StoreRequestSchema, { key: named, message: sentOf(message), fingerprint: digest });
  if (more.occurredAt) request.occurredAt = instantOf(more.occurredAt);
  return request;
}

/** A ClaimNext with a new claim_id (rule 1), for `most` messages; it waits for `waitMs` milliseconds. */
export function nextOf(options: LedgerOptions, most: number, waitMs: number): ClaimNextRequest {
  const { consumer, leaseMs } = options;
  const named = { consumer, claimId: randomUUID(), owner: ownerOf(options) };
  const request = create(ClaimNextRequestSchema, { ...named, max: most, wait: durationOf(waitMs) });
  if (leaseMs !== undefined) request.lease = durationOf(leaseMs);
  return request;
}

/** Throws {@link InvalidField} for an option of `work` beyond its bound, or that is not one. */
export function checkWork(options: WorkOptions): void {
  checkNames(options, WORK, 'work');
  const { concurrency = 1, graceMs = 0, signal } = options;
  if (!Number.isInteger(concurrency) || concurrency < 1 || concurrency > 1_000) {
    throw new InvalidField('concurrency', `is ${concurrency}; 1 to 1000 are allowed`);
  }
  if (!(graceMs >= 0)) throw new InvalidField('graceMs', `${graceMs} ms is not a time`);
  if (signal !== undefined && !(signal instanceof AbortSignal)) {
    throw new InvalidField('signal', 'must be an AbortSignal, such as the `signal` of a Shutdown');
  }
}

function ownerOf(options: LedgerOptions): string {
  return options.owner ?? `${hostname().slice(0, 100)}/${process.pid}`;
}

function namesOf({ consumer }: LedgerOptions, key: Key) {
  if (!(key instanceof Key)) {
    throw new InvalidField('key', `must be a Key, not ${typeof key}: Key.of(source, id) makes one`);
  }
  // A key at fault is not sent: it may not be text that a message can hold.
  const [source, id] = key.fault ? ['', ''] : [key.source, key.id];
  return create(EntryKeySchema, { consumer, source, id, replayRun: key.replayRun });
}

function instantOf(occurredAt: Date): Timestamp {
  if (!Number.isFinite(occurredAt.getTime())) throw new InvalidField('occurredAt', 'is not a valid date');
  return timestampFromDate(occurredAt);
}
