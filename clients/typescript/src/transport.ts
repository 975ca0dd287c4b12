import type { ServiceError } from '@grpc/grpc-js';
import { Client, Metadata, connectivityState, status } from '@grpc/grpc-js';
import type { Channel } from './connection.js';
import type { Try } from './core/world.js';
import { Failure } from './core/world.js';
import { Closed, typeName } from './errors.js';
import { propagated } from './telemetry.js';

const TEXT_LENGTH = 500; // characters of an error's text that are kept

/** The connection of a client: it is made with the first call. */
export class Transport {
  readonly #channel: Channel;
  #client: Client | undefined;
  #closed = false;

  constructor(channel: Channel) {
    this.#channel = channel;
  }

  /** Waits until there is a connection, or until none can be had now; at most for `limit` milliseconds. */
  async connected(limit: number): Promise<void> {
    const channel = this.#opened().getChannel();
    const until = Date.now() + limit;
    for (;;) {
      const state = channel.getConnectivityState(true);
      if (state !== connectivityState.IDLE && state !== connectivityState.CONNECTING) return;
      const changed = await new Promise<boolean>((resolve) => {
        channel.watchConnectivityState(state, until, (error) => resolve(!error));
      });
      if (!changed) return;
    }
  }

  /** Sends one try; resolves to the encoded answer, or to the failure. */
  async send(attempt: Try): Promise<Uint8Array | Failure> {
    const client = this.#opened();
    try {
      return await this.#sent(client, attempt);
    } catch (error) {
      // A call that gRPC does not take, such as one with headers that it refuses: the effect may be done all the same.
      return new Failure('INTERNAL', undefined, undefined, undefined, typeName(error));
    }
  }

  #opened(): Client {
    if (this.#closed) throw new Closed();
    const { target, credentials, options } = this.#channel;
    return (this.#client ??= new Client(target, credentials, options));
  }

  #sent(client: Client, attempt: Try): Promise<Uint8Array | Failure> {
    const { method, request, stop } = attempt;
    const metadata = new Metadata({ waitForReady: attempt.repeat });
    for (const [name, value] of propagated()) metadata.set(name, value);
    const deadline = Date.now() + attempt.timeout;
    return new Promise((resolve) => {
      const call = client.makeUnaryRequest<Uint8Array, Uint8Array>(
        `/${method.parent.typeName}/${method.name}`,
        (bytes) => Buffer.from(bytes),
        (bytes) => bytes,
        request,
        metadata,
        { deadline },
        (error, answer) => {
          stop?.removeEventListener('abort', cancel);
          resolve(error ? failureOf(error, this.#channel.endpoint) : (answer ?? new Uint8Array()));
        },
      );
      const cancel = () => call.cancel();
      stop?.addEventListener('abort', cancel);
    });
  }

  /** Closes the connection: nothing can be sent any more. */
  close(): void {
    this.#closed = true;
    this.#client?.close();
  }
}

/**
 * The failure that an error reports, by the trailers with which the ledger marks its own errors. Where the ledger did not make
 * the error, its text names the endpoint: gRPC's own does not.
 */
export function failureOf(error: Partial<ServiceError>, endpoint: string): Failure {
  const trailer = (name: string): string | undefined => {
    const value = error.metadata?.get(`idempotency-ledger-${name}`)[0];
    return value === undefined ? undefined : value.toString() || undefined;
  };
  const after = trailer('retry-after-ms') ?? '';
  const reason = trailer('reason');
  const unanswered = reason ? '' : `no answer from ${endpoint} (option endpoint, else LEDGER_ENDPOINT): `;
  return new Failure(
    status[error.code ?? status.UNKNOWN],
    reason,
    trailer('advice'),
    /^\d{1,15}$/.test(after) ? Number(after) : undefined,
    (unanswered + (error.details ?? '')).slice(0, TEXT_LENGTH),
  );
}
