import { within } from '../timing.js';

/** What closing needs of a client of Kafka. */
export interface Closing {
  close(force: boolean): Promise<void>;
  readonly connections: Iterable<readonly [string, { readonly socket: { destroy(): unknown } }]> & {
    close(): Promise<void>;
  };
}

/**
 * Closes a client, at most for this number of milliseconds, and then destroys the connections that are still open.
 *
 * `close` waits for answers of the broker, and for a socket that is still connecting or cannot send its data: perhaps for minutes.
 */
export async function closeClient(client: Closing, most: number): Promise<void> {
  const sockets = () => [...client.connections].map(([, { socket }]) => socket);
  // The client forgets connections before they are closed, and may open others while it leaves its group.
  const before = sockets();
  await within(
    most,
    client.close(true).catch(() => undefined),
  );
  const open = new Set([...before, ...sockets()]);
  // No connection is opened from now on.
  client.connections.close().catch(() => undefined);
  for (const socket of open) socket.destroy();
}
