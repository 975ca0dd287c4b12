package idempotencyledger.client;

import java.io.FileOutputStream;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.channels.FileChannel;
import java.nio.channels.OverlappingFileLockException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * The file of a spool, which one process has.
 *
 * <p>The lock is that of a second file. Java's locks are those of POSIX, which end when any
 * descriptor of the file is closed in the process: a program that reads its own spool would end a
 * lock of the spool itself. For the same reason a second opener in the process is refused before
 * the second file is opened. The lock file is not removed: a process that waits for it could then
 * have one that is not found any more.
 *
 * <p>Lines are written by a stream, not by a channel: a channel is closed where its thread is
 * interrupted, and the end of an effect could not be noted.
 */
final class LockedSpoolFile implements SpoolFile {
  private static final Set<Path> OPENED = ConcurrentHashMap.newKeySet();

  private final Path real;
  private final FileChannel lock;
  private final FileOutputStream file;

  private LockedSpoolFile(Path real, FileChannel lock, FileOutputStream file) {
    this.real = real;
    this.lock = lock;
    this.file = file;
  }

  /** The file, locked, at the beginning of a line, and on the disk with its folder. */
  static LockedSpoolFile open(Path path) throws IOException {
    make(path);
    Path real = path.toRealPath();
    if (!OPENED.add(real)) {
      throw taken();
    }
    FileChannel lock = null;
    FileOutputStream file = null;
    try {
      lock = locked(real.resolveSibling(real.getFileName() + ".lock"));
      file = new FileOutputStream(real.toFile(), true);
      prepare(real, file);
      return new LockedSpoolFile(real, lock, file);
    } catch (IOException | RuntimeException error) {
      close(file);
      close(lock);
      OPENED.remove(real);
      throw error;
    }
  }

  @Override
  public void append(byte[] line) throws IOException {
    file.write(line);
  }

  @Override
  public void sync() throws IOException {
    file.getFD().sync();
  }

  @Override
  public void close() throws IOException {
    try (lock;
        file) {
      OPENED.remove(real);
    }
  }

  /** Makes the file where it is missing, readable for its owner alone. */
  private static void make(Path path) throws IOException {
    var owner = PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------"));
    try {
      Files.createFile(path, owner);
    } catch (FileAlreadyExistsException there) {
      // It is appended to.
    } catch (UnsupportedOperationException error) {
      throw new IOException("a spool needs a POSIX system", error);
    }
  }

  private static FileChannel locked(Path path) throws IOException {
    make(path);
    FileChannel lock = FileChannel.open(path, StandardOpenOption.WRITE);
    try {
      if (lock.tryLock() != null) {
        return lock;
      }
    } catch (OverlappingFileLockException error) {
      // Another class loader of this process. Closing the channel would end that lock.
      throw taken();
    } catch (IOException error) {
      close(lock);
      throw error;
    }
    close(lock);
    throw taken();
  }

  private static void prepare(Path real, FileOutputStream file) throws IOException {
    try (RandomAccessFile reader = new RandomAccessFile(real.toFile(), "r")) {
      if (reader.length() > 0) {
        reader.seek(reader.length() - 1);
        // A line that a crash has cut off ends here: the next one must not continue it.
        if (reader.read() != '\n') {
          file.write('\n');
        }
      }
    }
    file.getFD().sync();
    // Without this a new file could be gone after a crash, with the beginnings in it.
    try (FileChannel folder = FileChannel.open(real.getParent(), StandardOpenOption.READ)) {
      folder.force(true);
    }
  }

  private static IOException taken() {
    return new IOException("another process, or another Spool of this one, has the file");
  }

  private static void close(AutoCloseable opened) {
    try {
      if (opened != null) {
        opened.close();
      }
    } catch (Exception error) {
      // The error that was first says more.
    }
  }
}
