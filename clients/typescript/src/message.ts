import { create } from '@bufbuild/protobuf';
import { timestampDate } from '@bufbuild/protobuf/wkt';
import { InvalidField } from './errors.js';
import type { Handed, Message as Sent } from './gen/idempotency/ledger/v1/ledger_pb.js';
import { MessageSchema } from './gen/idempotency/ledger/v1/ledger_pb.js';
import { Key } from './key.js';
import { type Names, checkNames } from './known-options.js';

const PAYLOAD_MAX = 256 * 1024;
const HEADERS_MAX = 64;
const HEADERS_BYTES_MAX = 16 * 1024;
const HEADER_NAME_MAX = 256;
const TEXTS = { topic: 256, eventType: Infinity, eventVersion: 128, contentType: 128 }; // The ledger cuts `eventType`.
const NOTHING = new Uint8Array();

/**
 * What a broker delivered: a payload, and what came with it. The ledger keeps it as it is, and hands it to a worker.
 *
 * A message beyond a bound is at fault itself: it is not sent, and its outcome is `DEAD_LETTER` with an `InvalidField` as its
 * `error`.
 */
export interface Message {
  /** The payload, at most 256 KiB. */
  readonly payload: Uint8Array;
  /** Pairs of a name (1 to 256 bytes) and its bytes: at most 64, and at most 16 KiB together. By default none. */
  readonly headers?: readonly (readonly [string, Uint8Array])[] | undefined;
  /** The topic, queue or stream that it came from, at most 256 bytes. By default empty. */
  readonly topic?: string | undefined;
  /** The partition, where the broker has partitions. */
  readonly partition?: number | undefined;
  /** The offset or sequence number, where the broker has one. */
  readonly offset?: bigint | undefined;
  /** The broker's own key, at most 512 bytes. By default empty. */
  readonly messageKey?: Uint8Array | undefined;
  /** What kind of message it is: a label of metrics. By default empty. */
  readonly eventType?: string | undefined;
  /** The version of its schema, at most 128 bytes. By default empty. */
  readonly eventVersion?: string | undefined;
  /** The media type of the payload, at most 128 bytes. By default empty. */
  readonly contentType?: string | undefined;
}

/** A message that the ledger kept, as a worker's handler sees it. */
export interface StoredMessage extends Message {
  /** Its name. */
  readonly key: Key;
  /** When it was stored, by the store's clock. */
  readonly storedAt: Date | undefined;
  /** Its headers, in their order. */
  readonly headers: readonly (readonly [string, Uint8Array])[];
}

const MESSAGE: Names<Message> = {
  payload: true,
  headers: true,
  topic: true,
  partition: true,
  offset: true,
  messageKey: true,
  eventType: true,
  eventVersion: true,
  contentType: true,
};

/** Throws {@link InvalidField} where the program is at fault: a field of another type, or one that is not a field. */
export function checkMessage(message: Message): void {
  checkNames(message, MESSAGE, 'a Message');
  const { payload, messageKey, headers = [], partition, offset } = message;
  if (!(payload instanceof Uint8Array))
    throw new InvalidField('message.payload', `must be bytes, not ${typeof payload}`);
  if (messageKey !== undefined && !(messageKey instanceof Uint8Array)) {
    throw new InvalidField('message.message_key', 'must be bytes');
  }
  for (const name of Object.keys(TEXTS) as (keyof typeof TEXTS)[]) {
    if (message[name] !== undefined && typeof message[name] !== 'string') {
      throw new InvalidField(field(name), 'must be text');
    }
  }
  const right = headers.every(([name, value]) => typeof name === 'string' && value instanceof Uint8Array);
  if (!right) throw new InvalidField('message.headers', 'must be pairs of text and bytes');
  if (partition !== undefined && !(Number.isInteger(partition) && Math.abs(partition) < 2 ** 31)) {
    throw new InvalidField('message.partition', 'must be an integer of 32 bits');
  }
  if (offset !== undefined && (typeof offset !== 'bigint' || BigInt.asIntN(64, offset) !== offset)) {
    throw new InvalidField('message.offset', 'must be a bigint of 64 bits');
  }
}

function field(name: string): string {
  return `message.${name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)}`;
}

/** Why the ledger would refuse the message; `undefined` where it would not. */
export function faultOf(message: Message): InvalidField | undefined {
  const sizes = Object.entries({ ...TEXTS }).map(([name, most]) => {
    const text = message[name as keyof typeof TEXTS] ?? '';
    return { name, most, size: Buffer.byteLength(text), surrogate: /\p{Surrogate}/u.test(text) };
  });
  sizes.push({ name: 'payload', most: PAYLOAD_MAX, size: message.payload.length, surrogate: false });
  sizes.push({ name: 'messageKey', most: 512, size: message.messageKey?.length ?? 0, surrogate: false });
  for (const { name, most, size, surrogate } of sizes) {
    if (surrogate) return new InvalidField(field(name), 'is not valid Unicode: it has a lone surrogate');
    if (size > most) return new InvalidField(field(name), `has ${size} bytes; at most ${most} are allowed`);
  }
  const { headers = [] } = message;
  if (headers.length > HEADERS_MAX) {
    return new InvalidField('message.headers', `has ${headers.length} headers; at most ${HEADERS_MAX} are allowed`);
  }
  let together = 0;
  for (const [name, value] of headers) {
    const size = Buffer.byteLength(name);
    if (size < 1 || size > HEADER_NAME_MAX || /\p{Surrogate}/u.test(name)) {
      return new InvalidField('message.headers.name', `must be 1 to ${HEADER_NAME_MAX} bytes of UTF-8`);
    }
    together += size + value.length;
  }
  if (together <= HEADERS_BYTES_MAX) return undefined;
  return new InvalidField('message.headers', `has ${together} bytes; at most ${HEADERS_BYTES_MAX} are allowed`);
}

/** The message as the ledger takes it. */
export function sentOf(message: Message): Sent {
  const { payload, headers = [], topic = '', messageKey = NOTHING } = message;
  const { eventType = '', eventVersion = '', contentType = '' } = message;
  const sent = create(MessageSchema, { payload, topic, messageKey, eventType, eventVersion, contentType });
  sent.headers = create(MessageSchema, { headers: headers.map(([name, value]) => ({ name, value })) }).headers;
  if (message.partition !== undefined) sent.partition = message.partition;
  if (message.offset !== undefined) sent.offset = message.offset;
  return sent;
}

/** The message of a handout. */
export function storedOf({ key, message, storedAt }: Handed): StoredMessage {
  const { payload, headers, topic, partition, offset, messageKey, eventType, eventVersion, contentType } =
    message ?? create(MessageSchema);
  return {
    payload,
    headers: headers.map(({ name, value }) => [name, value] as const),
    topic,
    partition,
    offset,
    messageKey,
    eventType,
    eventVersion,
    contentType,
    key: Key.of(key?.source ?? '', key?.id ?? ''),
    storedAt: storedAt && timestampDate(storedAt),
  };
}
