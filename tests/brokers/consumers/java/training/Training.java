package training;

import com.google.gson.JsonParser;
import com.rabbitmq.client.ConnectionFactory;
import idempotencyledger.client.proto.ClaimRequest;
import idempotencyledger.client.proto.LedgerServiceGrpc;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.StatusRuntimeException;
import java.net.ConnectException;
import java.sql.DriverManager;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.exceptions.JedisException;

/**
 * Loads what a consumer loads besides the package, for an archive of the JVM. No server answers it.
 */
public final class Training {
  private Training() {}

  public static void main(String[] arguments) throws Exception {
    JsonParser.parseString("{}");
    DriverManager.getConnection("jdbc:sqlite::memory:").close();
    ManagedChannel channel =
        Grpc.newChannelBuilder("127.0.0.1:1", InsecureChannelCredentials.create()).build();
    try {
      LedgerServiceGrpc.newBlockingStub(channel)
          .withDeadlineAfter(1, TimeUnit.SECONDS)
          .claim(ClaimRequest.getDefaultInstance());
    } catch (StatusRuntimeException expected) {
      channel.shutdownNow();
    }
    Map<String, Object> config = Map.of("bootstrap.servers", "127.0.0.1:1", "group.id", "training");
    ByteArraySerializer raw = new ByteArraySerializer();
    ByteArrayDeserializer bytes = new ByteArrayDeserializer();
    try (var producer = new KafkaProducer<>(config, raw, raw);
        var consumer = new KafkaConsumer<>(config, bytes, bytes)) {
      producer.close(Duration.ZERO);
      consumer.subscribe(List.of("training"));
      consumer.poll(Duration.ofSeconds(1));
    }
    try (RedisClient redis = RedisClient.create("redis://127.0.0.1:1")) {
      redis.ping();
    } catch (JedisException expected) {
      // Nothing listens.
    }
    ConnectionFactory broker = new ConnectionFactory();
    broker.setAutomaticRecoveryEnabled(false);
    broker.setPort(1);
    try {
      broker.newConnection().close();
    } catch (ConnectException expected) {
      return;
    }
  }
}
