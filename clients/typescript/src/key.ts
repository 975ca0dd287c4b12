import { createHash } from 'node:crypto';
import { InvalidField } from './errors.js';

const CONTROL = /[\u0000-\u001f\u007f-\u009f]/;
const RUN = /^[A-Za-z0-9._-]{0,64}$/;

/** The text, if it may be a part of a key: 1 to `most` bytes of UTF-8, no control characters, no lone surrogate. */
export function checkedText(field: string, text: unknown, most: number): string {
  if (typeof text !== 'string') throw new InvalidField(field, `must be text, not ${typeof text}`);
  if (/\p{Surrogate}/u.test(text)) throw new InvalidField(field, 'is not valid Unicode: it has a lone surrogate');
  const size = Buffer.byteLength(text);
  if (size < 1 || size > most) throw new InvalidField(field, `has ${size} bytes of UTF-8; 1 to ${most} are allowed`);
  if (CONTROL.test(text)) throw new InvalidField(field, 'has a control character');
  return text;
}

/** The parts of a CloudEvent that name it: an object of the CloudEvents SDK, or what its JSON form was decoded to. */
export interface CloudEventLike {
  /** The producer. */
  readonly source?: unknown;
  /** The event, unique within its source. */
  readonly id?: unknown;
}

/**
 * The name of a message: `source` and `id` of its producer, the same on each delivery. Keys are compared as bytes.
 *
 * A message whose source or id is beyond its bound is at fault itself: it is not sent to the ledger, and its outcome
 * is `DEAD_LETTER`. Throws {@link InvalidField} where the program is at fault: a part that is not text, a replay run.
 */
export class Key {
  /** Why the ledger would refuse the message; `undefined` where it is right. */
  readonly fault: InvalidField | undefined;

  private constructor(
    /** The producer, 1 to 256 bytes of UTF-8 without control characters. */
    readonly source: string,
    /** The message, unique within its source, 1 to 512 bytes of UTF-8 without control characters. */
    readonly id: string,
    /** The replay that the delivery belongs to, at most 64 of `A-Z a-z 0-9 . _ -`; empty for live deliveries. */
    readonly replayRun: string,
  ) {
    for (const [field, part] of [
      ['key.source', source],
      ['key.id', id],
    ] as const) {
      if (typeof part !== 'string') throw new InvalidField(field, `must be text, not ${typeof part}`);
    }
    if (typeof replayRun !== 'string' || !RUN.test(replayRun)) {
      throw new InvalidField('key.replay_run', "at most 64 characters of A-Z, a-z, 0-9, '.', '_' and '-' are allowed");
    }
    try {
      checkedText('key.source', source, 256);
      checkedText('key.id', id, 512);
    } catch (error) {
      if (error instanceof InvalidField) this.fault = error;
    }
  }

  /** The key of a message by its source and id. */
  static of(source: string, id: string, replayRun = ''): Key {
    return new Key(source, id, replayRun);
  }

  /**
   * The key of a CloudEvent.
   *
   * An event without `source` or `id` is at fault, as `fault` of the key says: its outcome is `DEAD_LETTER`.
   */
  static fromCloudEvent(event: CloudEventLike, replayRun = ''): Key {
    const text = (part: unknown): string => (typeof part === 'string' ? part : '');
    return new Key(text(event.source), text(event.id), replayRun);
  }
}

/** A digest of the message's body, 1 to 64 bytes, by which another body under the same key is found out. */
export class Fingerprint {
  /** The bytes of the digest. */
  readonly digest: Uint8Array;

  constructor(digest: Uint8Array) {
    if (!(digest instanceof Uint8Array) || digest.length < 1 || digest.length > 64) {
      throw new InvalidField('fingerprint', 'must be 1 to 64 bytes; Fingerprint.of makes it of the raw body');
    }
    this.digest = digest;
  }

  /**
   * The SHA-256 of the broker's raw body, before any decoding.
   *
   * An object that was decoded and serialised again has other bytes in another version or language. So text and objects
   * are refused with {@link InvalidField}.
   */
  static of(body: Uint8Array): Fingerprint {
    if (!(body instanceof Uint8Array)) {
      throw new InvalidField('fingerprint', `give the raw body as bytes (Uint8Array or Buffer), not ${typeof body}`);
    }
    return new Fingerprint(createHash('sha256').update(body).digest());
  }
}
