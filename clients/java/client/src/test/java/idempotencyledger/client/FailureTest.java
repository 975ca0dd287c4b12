package idempotencyledger.client;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.grpc.Metadata;
import io.grpc.Status;
import org.junit.jupiter.api.Test;

class FailureTest {
  private static final Status STATUS =
      Status.UNAVAILABLE.withDescription(
          "io exception\n"
              + "Caused by: Refused: /127.0.0.1:9\n"
              + "\tat a.B.c(B.java:1)\n"
              + "\tat a.D.e(D.java)]");

  @Test
  void unanswered_call_names_the_endpoint_in_one_line_without_stack_trace() {
    Failure failure = Failure.of(STATUS.asRuntimeException()).of("127.0.0.1:9");
    assertEquals(
        "no answer from 127.0.0.1:9 (option endpoint, else LEDGER_ENDPOINT):"
            + " io exception Caused by: Refused: /127.0.0.1:9",
        failure.text());
    assertEquals("NO_ANSWER (UNAVAILABLE)", failure.name());
  }

  @Test
  void text_of_the_ledger_stays_as_it_is() {
    Metadata trailers = new Metadata();
    trailers.put(
        Metadata.Key.of("idempotency-ledger-reason", Metadata.ASCII_STRING_MARSHALLER), "DRAINING");
    Status refused = Status.UNAVAILABLE.withDescription("this server is shutting down");
    Failure failure = Failure.of(refused.asRuntimeException(trailers)).of("127.0.0.1:9");
    assertEquals("this server is shutting down", failure.text());
  }
}
