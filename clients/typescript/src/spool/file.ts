import { type FileHandle, open, realpath } from 'node:fs/promises';
import { dirname } from 'node:path';
import { SpoolLock } from './lock.js';
import { SpoolFailed } from './failed.js';

/** What a spool does with its file. */
export interface SpoolFile {
  /** Appends the bytes with one write; resolves to how many were written. */
  write(data: Uint8Array): Promise<number>;
  sync(): Promise<void>;
  close(): Promise<void>;
}

/** The file, locked, at the beginning of a line; its folder is synced, so that a new file outlives a crash. */
export async function openedSpool(path: string): Promise<SpoolFile> {
  // Windows has no sync of a folder: a new file could be gone after a crash, with the beginnings in it.
  if (process.platform === 'win32') throw new SpoolFailed('a spool needs a POSIX system');
  let file: FileHandle | undefined;
  let lock: SpoolLock | undefined;
  try {
    file = await open(path, 'a+', 0o600);
    const real = await realpath(path);
    lock = await SpoolLock.take(`${real}.lock`);
    await prepare(file, dirname(real));
    return opened(file, lock);
  } catch (error) {
    await file?.close();
    await lock?.release();
    throw new SpoolFailed(`${path}: ${(error as Error).message}`, { cause: error });
  }
}

async function prepare(file: FileHandle, folder: string): Promise<void> {
  const { size } = await file.stat();
  if (size > 0) {
    const last = Buffer.alloc(1);
    await file.read(last, 0, 1, size - 1);
    // A line that a crash has cut off ends here: the next one must not continue it.
    if (last.toString('latin1') !== '\n') await file.write('\n');
  }
  await file.sync();
  await synced(folder);
}

async function synced(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

function opened(file: FileHandle, lock: SpoolLock): SpoolFile {
  return {
    write: async (data) => (await file.write(data)).bytesWritten,
    sync: () => file.sync(),
    close: async () => {
      await file.close();
      await lock.release();
    },
  };
}
