package idempotencyledger.client.servlet;

import jakarta.servlet.AsyncContext;
import jakarta.servlet.ReadListener;
import jakarta.servlet.ServletInputStream;
import jakarta.servlet.ServletRequest;
import jakarta.servlet.ServletResponse;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletRequestWrapper;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.InputStreamReader;
import java.net.URLDecoder;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Enumeration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** A request whose body was read, and is read again by the application. */
final class BufferedRequest extends HttpServletRequestWrapper {
  private final byte[] body;
  private ServletInputStream stream;
  private BufferedReader reader;
  private Map<String, String[]> parameters;

  BufferedRequest(HttpServletRequest request, byte[] body) {
    super(request);
    this.body = body;
  }

  @Override
  public ServletInputStream getInputStream() {
    if (stream == null) {
      stream = new Body(new ByteArrayInputStream(body));
    }
    return stream;
  }

  @Override
  public BufferedReader getReader() {
    if (reader == null) {
      reader = new BufferedReader(new InputStreamReader(getInputStream(), charset()));
    }
    return reader;
  }

  private Charset charset() {
    String named = getCharacterEncoding();
    return named == null ? StandardCharsets.UTF_8 : Charset.forName(named);
  }

  @Override
  public boolean isAsyncSupported() {
    return false;
  }

  @Override
  public AsyncContext startAsync() {
    throw new IllegalStateException("an answer with an Idempotency-Key cannot be asynchronous");
  }

  @Override
  public AsyncContext startAsync(ServletRequest request, ServletResponse response) {
    return startAsync();
  }

  @Override
  public String getParameter(String name) {
    String[] values = getParameterMap().get(name);
    return values == null ? null : values[0];
  }

  @Override
  public String[] getParameterValues(String name) {
    String[] values = getParameterMap().get(name);
    return values == null ? null : values.clone();
  }

  @Override
  public Enumeration<String> getParameterNames() {
    return Collections.enumeration(getParameterMap().keySet());
  }

  /** Those of the query, and those of a form in the body, which the container can read no more. */
  @Override
  public Map<String, String[]> getParameterMap() {
    if (parameters == null) {
      Map<String, List<String>> found = new LinkedHashMap<>();
      super.getParameterMap()
          .forEach((name, values) -> found.put(name, new ArrayList<>(List.of(values))));
      String type = getContentType();
      if (type != null
          && type.toLowerCase(Locale.ROOT).startsWith("application/x-www-form-urlencoded")) {
        for (String pair : new String(body, StandardCharsets.US_ASCII).split("&")) {
          int equals = pair.indexOf('=');
          String name = decoded(equals < 0 ? pair : pair.substring(0, equals));
          if (!pair.isEmpty()) {
            found
                .computeIfAbsent(name, key -> new ArrayList<>())
                .add(equals < 0 ? "" : decoded(pair.substring(equals + 1)));
          }
        }
      }
      Map<String, String[]> made = new LinkedHashMap<>();
      found.forEach((name, values) -> made.put(name, values.toArray(String[]::new)));
      parameters = Collections.unmodifiableMap(made);
    }
    return parameters;
  }

  private String decoded(String text) {
    return URLDecoder.decode(text, charset());
  }

  /** The bytes of the body. */
  private static final class Body extends ServletInputStream {
    private final ByteArrayInputStream bytes;

    Body(ByteArrayInputStream bytes) {
      this.bytes = bytes;
    }

    @Override
    public int read() {
      return bytes.read();
    }

    @Override
    public int read(byte[] into, int offset, int length) {
      return bytes.read(into, offset, length);
    }

    @Override
    public int available() {
      return bytes.available();
    }

    @Override
    public boolean isFinished() {
      return bytes.available() == 0;
    }

    @Override
    public boolean isReady() {
      return true;
    }

    @Override
    public void setReadListener(ReadListener listener) {
      throw new IllegalStateException("the request is not asynchronous");
    }
  }
}
