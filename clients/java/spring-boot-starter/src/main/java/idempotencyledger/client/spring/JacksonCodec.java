package idempotencyledger.client.spring;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.reflect.Type;

/** JSON. */
final class JacksonCodec implements ValueCodec {
  private final ObjectMapper mapper;

  JacksonCodec(ObjectMapper mapper) {
    this.mapper = mapper;
  }

  @Override
  public byte[] encode(Object value, Type type) {
    try {
      return type == void.class
          ? new byte[0]
          : mapper.writerFor(mapper.constructType(type)).writeValueAsBytes(value);
    } catch (JsonProcessingException e) {
      throw new UncheckedIOException(e);
    }
  }

  @Override
  public Object decode(byte[] bytes, Type type) {
    try {
      return type == void.class ? null : mapper.readValue(bytes, mapper.constructType(type));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
