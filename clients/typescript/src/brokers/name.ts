import { LedgerError } from '../errors.js';
import { Key } from '../key.js';

/**
 * A delivery has no id: it is dead-lettered, and reported in the log. It is never given one: a redelivery would have another,
 * and a second effect. A function that names deliveries throws this.
 */
export class NoId extends LedgerError {
  /** The name of the class. */
  override readonly name = 'NoId';
}

/** The name of a delivery, and when its message was made. */
export interface Named {
  /** The source and the id that the producer gave, the same on each delivery. */
  readonly key: Key;
  /** When the producer made the message: one that is older than what the ledger remembers is dead-lettered. By default not known. */
  readonly occurredAt?: Date | undefined;
}

// The bindings of CloudEvents: HTTP and NATS, Kafka, and AMQP with either of its separators. In this order: the last wins.
const PREFIXES = ['ce-', 'ce_', 'cloudevents:', 'cloudevents_'];
const STRUCTURED = 'application/cloudevents+json';
const RFC3339 = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)$/;

/**
 * The name of a CloudEvent, in binary mode (headers with a prefix such as `ce-`) or in structured mode (`content-type` is
 * `application/cloudevents+json`); `undefined` where the delivery is not a CloudEvent.
 *
 * The content-type decides, as in the bindings of CloudEvents: the attributes of a structured event are those of its body, and
 * attributes among its headers are not read. An id of a CloudEvent is unique within its source, so both are those of the event.
 * Names of headers are compared without regard to case. Throws {@link NoId} for an event without source or id.
 */
export function namedByCloudEvent(
  headers: ReadonlyMap<string, string>,
  body: Uint8Array,
  replayRun = '',
): Named | undefined {
  // Sorted: headers that differ by case alone give the same name on each delivery.
  const known = [...headers.keys()].sort().map((name) => [name.toLowerCase(), headers.get(name) ?? ''] as const);
  const kind = known.filter(([name]) => name === 'content-type').at(-1)?.[1] ?? '';
  const attributes = kind.toLowerCase().startsWith(STRUCTURED) ? decoded(body) : prefixed(known);
  if (!attributes) return undefined;
  const [source = '', id = ''] = [attributes.get('source'), attributes.get('id')];
  if (!source) throw new NoId('the CloudEvent has no attribute source');
  if (!id) throw new NoId('the CloudEvent has no attribute id');
  return { key: Key.of(source, id, replayRun), occurredAt: instant(attributes.get('time') ?? '') };
}

/** The attributes of an event in binary mode; `undefined` where there is none. */
function prefixed(known: readonly (readonly [string, string])[]): Map<string, string> | undefined {
  const found = new Map<string, string>();
  for (const prefix of PREFIXES) {
    for (const [name, value] of known) {
      if (name.startsWith(prefix)) found.set(name.slice(prefix.length), value);
    }
  }
  return found.size > 0 ? found : undefined;
}

/** The attributes of a structured event, as far as they are texts. */
function decoded(body: Uint8Array): Map<string, string> {
  let event: unknown;
  try {
    // Fatal: bytes that are not UTF-8 would be replaced, so that two ids could become one. A byte order mark is kept, and refused.
    event = JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body));
  } catch {
    event = undefined;
  }
  if (typeof event !== 'object' || event === null || Array.isArray(event)) {
    throw new NoId(`the body is not an object of JSON, and the content-type is ${STRUCTURED}`);
  }
  return new Map(Object.entries(event).filter((each): each is [string, string] => typeof each[1] === 'string'));
}

/** The instant of RFC 3339; `undefined` where the text is not one, or is one that the ledger would not take. */
function instant(text: string): Date | undefined {
  const [whole, local] = RFC3339.exec(text.toUpperCase()) ?? [];
  if (!whole || !local) return undefined;
  const [found, day] = [new Date(whole), new Date(`${local}Z`)];
  if (Number.isNaN(found.getTime()) || Number.isNaN(day.getTime())) return undefined;
  if (!day.toISOString().startsWith(local)) return undefined; // A day that the month does not have.
  const year = found.getUTCFullYear();
  return year >= 1 && year <= 9999 ? found : undefined;
}

/**
 * Whether all bytes of a text were UTF-8, as far as can be seen: a client that decodes replaces the others by U+FFFD, and two
 * ids must not become one.
 */
export function wasUtf8(text: string): boolean {
  return !text.includes('\ufffd');
}
