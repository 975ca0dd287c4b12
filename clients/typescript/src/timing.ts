const LONGEST = 2 ** 31 - 1; // milliseconds; a longer timer of Node.js fires immediately

/** Waits for this number of milliseconds; ends early, without an error, where the signal is aborted. */
export async function sleep(duration: number, stop?: AbortSignal): Promise<void> {
  if (stop?.aborted) return;
  await new Promise<void>((resolve) => {
    const end = () => {
      clearTimeout(timer);
      stop?.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, Math.min(duration, LONGEST));
    stop?.addEventListener('abort', end);
  });
}

/** Waits for work that does not reject, at most this number of milliseconds. */
export async function within(most: number, work: Promise<unknown>): Promise<void> {
  const over = new AbortController();
  await Promise.race([work, sleep(most, over.signal)]);
  over.abort();
}

/** Resolves where the signal is aborted. */
export async function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
}
