import com.google.gson.JsonObject;

/** To come. */
final class Serving {
  private Serving() {}

  static void serve(JsonObject command) {
    throw new UnsupportedOperationException();
  }
}
