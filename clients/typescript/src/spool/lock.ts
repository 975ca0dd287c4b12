import { readFileSync } from 'node:fs';
import { open, readFile, rename, unlink } from 'node:fs/promises';
import { hostname } from 'node:os';

/** The process that has a file, as the lock file names it. */
interface Holder {
  readonly pid: number;
  readonly host: string;
  /** When the process began, where the system says it: a later process with the same pid has another one. */
  readonly started: string | undefined;
}

/**
 * A lock file, in place of the file locks that Node.js does not have: the first process that makes it has the file, and
 * it is taken over where its process is gone.
 *
 * What it cannot do: it does not stop a writer that uses another kind of lock, or none. It cannot see whether a process of
 * another host, or of another container with the host's name, runs: from another host it is never taken over. A lock file
 * that a crash has cut off does not name a process, and a person has to remove it.
 */
export class SpoolLock {
  readonly #path: string;

  private constructor(path: string) {
    this.#path = path;
  }

  /** Makes the lock file. Rejects where another process, or this one, has it. */
  static async take(path: string): Promise<SpoolLock> {
    if (!(await made(path))) await takeOver(path);
    return new SpoolLock(path);
  }

  /** Removes the lock file. */
  async release(): Promise<void> {
    await unlink(this.#path);
  }
}

/** Takes the lock over from a process that is gone. */
async function takeOver(path: string): Promise<void> {
  const guard = `${path}.takeover`;
  // Without this file two processes that see the same dead one could both replace its lock, the second one a live lock.
  if (!(await made(guard))) throw inUse(guard, 'another process takes it over');
  try {
    const holder = parsed(await readFile(path, 'utf8'));
    if (!holder) throw inUse(path, 'its lock file does not name a process');
    if (holder.host !== hostname()) throw inUse(path, `process ${holder.pid} of the host ${holder.host} has made it`);
    if (runs(holder)) throw inUse(path, `process ${holder.pid} runs`);
    // The guard already names this process.
    await rename(guard, path);
  } catch (error) {
    await unlink(guard);
    throw error;
  }
}

/** Makes a lock file that names this process; false where there is one. */
async function made(path: string): Promise<boolean> {
  const file = await open(path, 'wx', 0o600).catch((error: unknown) => {
    if (code(error) === 'EEXIST') return undefined;
    throw error;
  });
  if (!file) return false;
  const holder: Holder = { pid: process.pid, host: hostname(), started: startOf(process.pid) };
  try {
    await file.writeFile(`${JSON.stringify(holder)}\n`);
    await file.sync();
  } catch (error) {
    // A lock without its process would never be taken over.
    await unlink(path);
    throw error;
  } finally {
    await file.close();
  }
  return true;
}

function inUse(path: string, why: string): Error {
  const mend = `if that is not so, remove ${path}`;
  return new Error(`another process, or another Spool of this one, has the file (${why}; ${mend})`);
}

function parsed(text: string): Holder | undefined {
  try {
    const { pid, host, started } = JSON.parse(text) as Record<string, unknown>;
    if (!Number.isSafeInteger(pid) || (pid as number) < 1 || typeof host !== 'string') return undefined;
    return { pid: pid as number, host, started: typeof started === 'string' ? started : undefined };
  } catch {
    return undefined;
  }
}

/** Whether the process of a lock may still run. */
function runs({ pid, started }: Holder): boolean {
  try {
    process.kill(pid, 0); // Sends nothing, and reports whether there is such a process.
  } catch (error) {
    if (code(error) === 'ESRCH') return false;
  }
  const now = startOf(pid);
  return now === undefined || started === undefined || now === started;
}

/** The boot and the tick in which a process began; `undefined` where the system has no /proc. */
function startOf(pid: number): string | undefined {
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The name of the program stands in brackets, and may have any character; the 20th field after it is the start.
    const tick = stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19];
    return tick === undefined ? undefined : `${boot}/${tick}`;
  } catch {
    return undefined;
  }
}

function code(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException).code;
}
