package idempotencyledger.client.servlet;

import idempotencyledger.client.servlet.Answer.Header;
import jakarta.servlet.ServletOutputStream;
import jakarta.servlet.WriteListener;
import jakarta.servlet.http.Cookie;
import jakarta.servlet.http.HttpServletResponse;
import jakarta.servlet.http.HttpServletResponseWrapper;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.nio.charset.Charset;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Supplier;

/** Holds what the application answers until its claim is settled. */
final class CapturedResponse extends HttpServletResponseWrapper {
  private static final Set<String> FRAMING = Set.of("content-length", "transfer-encoding");
  private static final String TYPE = "content-type";

  private final HttpServletResponse real;
  private final Captured body;
  private final Map<String, List<String>> headers = new TreeMap<>();
  private final List<Cookie> cookies = new ArrayList<>();
  private int status = SC_OK;
  private String encoding;
  private boolean committed;
  private boolean failed;
  private String message;
  private PrintWriter writer;

  CapturedResponse(HttpServletResponse real, int most) {
    super(real);
    this.real = real;
    this.body = new Captured(most);
  }

  /** Sends an answer: the length is that of its body. */
  static void send(HttpServletResponse response, Answer answer) throws IOException {
    response.setStatus(answer.status());
    sendHeaders(response, answer);
    if (answer.status() != SC_NO_CONTENT && answer.status() != SC_NOT_MODIFIED) {
      response.setContentLength(answer.body().length);
      response.getOutputStream().write(answer.body());
    }
  }

  private static void sendHeaders(HttpServletResponse response, Answer answer) {
    Set<String> set = new HashSet<>();
    for (Header header : answer.headers()) {
      if (FRAMING.contains(header.name())) {
        continue;
      } else if (header.name().equals(TYPE)) {
        response.setContentType(header.value());
      } else if (set.add(header.name())) {
        response.setHeader(header.name(), header.value());
      } else {
        response.addHeader(header.name(), header.value());
      }
    }
  }

  /** Sends what was held. */
  void send() throws IOException {
    cookies.forEach(real::addCookie);
    if (failed) {
      sendHeaders(real, answer());
    }
    if (failed && message != null) {
      real.sendError(status, message);
    } else if (failed) {
      real.sendError(status);
    } else {
      send(real, answer());
    }
  }

  /** The answer. A body that is too large is left out. */
  Answer answer() {
    if (writer != null) {
      writer.flush();
    }
    List<Header> made = new ArrayList<>();
    headers.forEach((name, values) -> values.forEach(value -> made.add(new Header(name, value))));
    if (!whole()) {
      made.add(new Header("idempotency-body", "omitted"));
    }
    return new Answer(status, made, body.bytes());
  }

  /** The body is held as a whole. */
  boolean whole() {
    return body.whole();
  }

  @Override
  public ServletOutputStream getOutputStream() {
    return body;
  }

  @Override
  public PrintWriter getWriter() {
    if (writer == null) {
      String type = getContentType();
      if (type != null && encoding == null) {
        setHeader(TYPE, type + ";charset=" + getCharacterEncoding());
      }
      Charset charset = Charset.forName(getCharacterEncoding());
      writer = new PrintWriter(new OutputStreamWriter(body, charset));
    }
    return writer;
  }

  @Override
  public void setStatus(int status) {
    unlessCommitted(() -> this.status = status);
  }

  @Override
  public int getStatus() {
    return status;
  }

  @Override
  public void sendError(int status, String message) {
    beginFinal();
    this.status = status;
    this.message = message;
    failed = true;
  }

  @Override
  public void sendError(int status) {
    sendError(status, null);
  }

  @Override
  public void sendRedirect(String location) {
    sendRedirect(location, SC_FOUND, true);
  }

  /** Of Servlet 6.1. */
  @Override
  public void sendRedirect(String location, int status, boolean clearBuffer) {
    if (clearBuffer) {
      beginFinal();
    }
    headers.put("location", List.of(location));
    this.status = status;
    committed = true;
  }

  private void beginFinal() {
    resetBuffer();
    committed = true;
  }

  @Override
  public void setHeader(String name, String value) {
    String lower = name.toLowerCase(Locale.ROOT);
    unlessCommitted(
        () -> {
          if (value == null) {
            return headers.remove(lower);
          }
          if (lower.equals(TYPE)) {
            encodingOf(value);
          }
          return headers.put(lower, new ArrayList<>(List.of(value)));
        });
  }

  @Override
  public void addHeader(String name, String value) {
    String lower = name.toLowerCase(Locale.ROOT);
    if (lower.equals(TYPE) || !headers.containsKey(lower)) {
      setHeader(name, value);
    } else {
      unlessCommitted(() -> headers.get(lower).add(value));
    }
  }

  private void encodingOf(String type) {
    int at = type.toLowerCase(Locale.ROOT).indexOf("charset=");
    if (at >= 0 && writer == null) {
      encoding = type.substring(at + 8).split(";", 2)[0].strip().replace("\"", "");
    }
  }

  @Override
  public void setDateHeader(String name, long date) {
    setHeader(name, date(date));
  }

  @Override
  public void addDateHeader(String name, long date) {
    addHeader(name, date(date));
  }

  private static String date(long millis) {
    return DateTimeFormatter.RFC_1123_DATE_TIME.format(
        Instant.ofEpochMilli(millis).atOffset(ZoneOffset.UTC));
  }

  @Override
  public void setIntHeader(String name, int value) {
    setHeader(name, String.valueOf(value));
  }

  @Override
  public void addIntHeader(String name, int value) {
    addHeader(name, String.valueOf(value));
  }

  @Override
  public boolean containsHeader(String name) {
    return headers.containsKey(name.toLowerCase(Locale.ROOT));
  }

  @Override
  public String getHeader(String name) {
    Collection<String> values = getHeaders(name);
    return values.isEmpty() ? null : values.iterator().next();
  }

  @Override
  public Collection<String> getHeaders(String name) {
    return List.copyOf(headers.getOrDefault(name.toLowerCase(Locale.ROOT), List.of()));
  }

  @Override
  public Collection<String> getHeaderNames() {
    return List.copyOf(headers.keySet());
  }

  @Override
  public void addCookie(Cookie cookie) {
    unlessCommitted(() -> cookies.add(cookie));
  }

  @Override
  public void setContentType(String type) {
    setHeader(TYPE, type);
  }

  @Override
  public String getContentType() {
    return getHeader(TYPE);
  }

  @Override
  public void setCharacterEncoding(String charset) {
    String type = getContentType();
    if (writer == null) {
      encoding = charset;
      if (type != null && charset != null) {
        setHeader(TYPE, type.split(";", 2)[0] + ";charset=" + charset);
      }
    }
  }

  @Override
  public String getCharacterEncoding() {
    return encoding == null ? "ISO-8859-1" : encoding;
  }

  @Override
  public void setContentLength(int length) {
    // It is that of the body.
  }

  @Override
  public void setContentLengthLong(long length) {
    // It is that of the body.
  }

  @Override
  public void setLocale(Locale locale) {
    setHeader("content-language", locale.toLanguageTag());
  }

  @Override
  public void setTrailerFields(Supplier<Map<String, String>> supplier) {
    throw new IllegalStateException("an answer with an Idempotency-Key has no trailers");
  }

  @Override
  public void flushBuffer() {
    if (writer != null) {
      writer.flush();
    }
    committed = true;
  }

  @Override
  public boolean isCommitted() {
    return committed;
  }

  @Override
  public void resetBuffer() {
    if (committed) {
      throw new IllegalStateException("the answer is committed");
    }
    if (writer != null) {
      writer.flush();
    }
    body.reset();
  }

  @Override
  public void reset() {
    resetBuffer();
    headers.clear();
    cookies.clear();
    status = SC_OK;
    encoding = null;
    writer = null;
  }

  private void unlessCommitted(Supplier<?> change) {
    if (!committed) {
      change.get();
    }
  }

  /** The bytes of the body, of which none are kept where there are too many. */
  private static final class Captured extends ServletOutputStream {
    private final ByteArrayOutputStream kept = new ByteArrayOutputStream();
    private final int most;
    private long size;

    Captured(int most) {
      this.most = most;
    }

    boolean whole() {
      return size <= most;
    }

    byte[] bytes() {
      return kept.toByteArray();
    }

    void reset() {
      size = 0;
      kept.reset();
    }

    @Override
    public void write(int each) {
      write(new byte[] {(byte) each}, 0, 1);
    }

    @Override
    public void write(byte[] bytes, int offset, int length) {
      size += length;
      if (whole()) {
        kept.write(bytes, offset, length);
      } else {
        kept.reset();
      }
    }

    @Override
    public boolean isReady() {
      return true;
    }

    @Override
    public void setWriteListener(WriteListener listener) {
      throw new IllegalStateException("the answer is not asynchronous");
    }
  }
}
