/**
 * A client of the idempotency ledger: each message of a broker, and each request, is processed once.
 *
 * `Ledger.process` is the whole API for most programs.
 *
 * @packageDocumentation
 */
export { Claim, type ClaimKey, type Handler, NotSettled, type Result } from './claim.js';
export { type ConnectionOptions } from './connection.js';
export { type Unexpected } from './core/delivery.js';
export { type OnExpiryName } from './core/world.js';
export {
  AnnouncementFailed,
  CheckpointDropped,
  ClaimLost,
  Closed,
  Doubtful,
  GiveBack,
  type GiveBackOptions,
  InvalidField,
  LedgerError,
  NoResult,
  NotGranted,
  NotProtected,
  Park,
  Retry,
  type RetryOptions,
  Steer,
  Terminal,
} from './errors.js';
export { type CloudEventLike, Fingerprint, Key } from './key.js';
export { Ledger, type MessageHandler } from './ledger.js';
export { type Codec, type IdempotentOptions, makeIdempotent } from './make-idempotent.js';
export { type Message, type StoredMessage } from './message.js';
export { type DeliveryOptions, type LedgerOptions, type StoreOptions, type WorkOptions } from './options.js';
export { Advice, type Outcome } from './outcome.js';
export { type Log } from './report.js';
export { Shutdown, type ShutdownOptions } from './shutdown.js';
