package idempotencyledger.client;

import java.io.Closeable;
import java.io.IOException;

/** What a spool does with its file. */
interface SpoolFile extends Closeable {
  /** Appends the bytes with one write. */
  void append(byte[] line) throws IOException;

  /** Returns when what was appended is on the disk. */
  void sync() throws IOException;
}
