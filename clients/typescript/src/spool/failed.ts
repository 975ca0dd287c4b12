import { LedgerError } from '../errors.js';

/**
 * The spool cannot be written, or not any more: an effect that it does not have must not begin.
 *
 * After a write or a sync has failed, nothing more is written to the same file: what the system has lost of it is not
 * known. Mend the disk, and open another file.
 */
export class SpoolFailed extends LedgerError {
  /** The name of the class. */
  override readonly name = 'SpoolFailed';
}
