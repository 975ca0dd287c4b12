import type { Consumer } from '@platformatic/kafka' with { 'resolution-mode': 'import' };
import { textOf } from './pool.js';

// Errors that stay.
const LASTING = [
  'TOPIC_AUTHORIZATION_FAILED',
  'GROUP_AUTHORIZATION_FAILED',
  'CLUSTER_AUTHORIZATION_FAILED',
  'SASL_AUTHENTICATION_FAILED',
  'INCONSISTENT_GROUP_PROTOCOL',
  'INVALID_SESSION_TIMEOUT',
  'INVALID_TOPIC_EXCEPTION',
  'GROUP_MAX_SIZE_REACHED',
  'UNSUPPORTED_VERSION',
];

/** What a broker answers to a fetch. */
export type FetchResponse = Awaited<ReturnType<Consumer['fetch']>>;

interface Found {
  readonly apiId?: unknown;
  readonly response?: FetchResponse;
  readonly errors?: unknown[];
  readonly cause?: unknown;
}

/** Whether an error, or one that it is made of, has this id of Kafka's protocol. */
export function isError(error: unknown, id: string): boolean {
  if (typeof error !== 'object' || error === null) return false;
  const { apiId, errors = [], cause } = error as Found;
  return apiId === id || [...errors, cause].some((each) => isError(each, id));
}

/** Whether a repeat would be refused as well. */
export function isLasting(error: unknown): boolean {
  return LASTING.some((id) => isError(error, id));
}

/** The ids of Kafka's protocol that an error has, or is made of; else its text. */
export function reasonOf(error: unknown): string {
  const ids = (each: unknown): string[] => {
    if (typeof each !== 'object' || each === null) return [];
    const { apiId, errors = [] } = each as Found;
    return [...(typeof apiId === 'string' ? [apiId] : []), ...errors.flatMap(ids)];
  };
  return [...new Set(ids(error))].join(', ') || textOf(error);
}

/** What a broker answered although it refused a part; `undefined` if the error has no answer. */
export function responseOf(error: unknown): FetchResponse | undefined {
  if (typeof error !== 'object' || error === null) return undefined;
  const { response, errors = [], cause } = error as Found;
  if (response) return response;
  for (const each of [...errors, cause]) {
    const found = responseOf(each);
    if (found) return found;
  }
  return undefined;
}
