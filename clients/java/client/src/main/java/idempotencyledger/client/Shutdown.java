package idempotencyledger.client;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/**
 * How a process stops in good order: by a signal, within a bound.
 *
 * <p>From the first SIGTERM or SIGINT on {@link #requested()} is true; a second one, or the end of
 * the grace, ends the process. After it was requested: take no new message, and call {@link
 * Ledger#close()}, which waits for running effects; then let {@code main} return. The JVM's
 * shutdown hooks run after that, and not while an effect runs.
 */
public final class Shutdown {
  private static final int ASKED_TWICE = 130;

  private final CountDownLatch requested = new CountDownLatch(1);
  private final Duration grace;

  private Shutdown(Duration grace) {
    this.grace = grace;
  }

  /**
   * Handles SIGTERM and SIGINT from now on, in place of the JVM.
   *
   * @param grace how long the process may take to end after the first signal, after which it ends
   *     with the code 1, whatever it is doing; give the supervisor a longer time
   * @return what says that the process was asked to stop
   * @throws IllegalStateException where the JVM leaves no signals to applications: it was started
   *     with {@code -Xrs}, or without the module {@code jdk.unsupported}
   */
  public static Shutdown onSignal(Duration grace) {
    Shutdown made = new Shutdown(grace);
    made.install();
    return made;
  }

  /**
   * Whether a signal has asked the process to stop.
   *
   * @return true from the first signal on
   */
  public boolean requested() {
    return requested.getCount() == 0;
  }

  /**
   * Waits for the request, for pauses in a loop.
   *
   * @param timeout how long to wait at most
   * @return {@link #requested()}
   * @throws InterruptedException where the thread is interrupted
   */
  public boolean await(Duration timeout) throws InterruptedException {
    return requested.await(Inflight.nanos(timeout), TimeUnit.NANOSECONDS);
  }

  private synchronized void signalled() {
    boolean second = requested();
    requested.countDown();
    if (second) {
      Runtime.getRuntime().halt(ASKED_TWICE);
    }
    Thread watchdog = new Thread(this::endAfterGrace, "idempotency-ledger-shutdown");
    watchdog.setDaemon(true);
    watchdog.start();
  }

  private void endAfterGrace() {
    Waiting.sleep(Inflight.nanos(grace));
    Runtime.getRuntime().halt(1);
  }

  /**
   * By reflection: javac cannot see sun.misc.Signal with --release, though every JDK since 9
   * exports it.
   */
  private void install() {
    try {
      Class<?> signal = Class.forName("sun.misc.Signal");
      Class<?> handler = Class.forName("sun.misc.SignalHandler");
      InvocationHandler first =
          (proxy, method, arguments) -> {
            if (method.getDeclaringClass() == Object.class) {
              return switch (method.getName()) {
                case "hashCode" -> System.identityHashCode(proxy);
                case "equals" -> proxy == arguments[0];
                default -> "Shutdown";
              };
            }
            signalled();
            return null;
          };
      Object handled =
          Proxy.newProxyInstance(Shutdown.class.getClassLoader(), new Class<?>[] {handler}, first);
      for (String name : List.of("TERM", "INT")) {
        Object number = signal.getConstructor(String.class).newInstance(name);
        signal.getMethod("handle", signal, handler).invoke(null, number, handled);
      }
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException("the JVM leaves no signals to this application", e);
    }
  }
}
