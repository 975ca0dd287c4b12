package redis;

import handler.Handler;
import idempotencyledger.client.Ledger;
import idempotencyledger.client.redis.StreamConsumer;
import redis.clients.jedis.RedisClient;

/** A consumer of Redis Streams. */
public final class Main {
  private Main() {}

  public static void main(String[] arguments) {
    Handler handler = new Handler(arguments);
    try (RedisClient redis = RedisClient.create(handler.broker());
        Ledger ledger = handler.ledger()) {
      new StreamConsumer(
              ledger, redis, "orders", (claim, entry) -> handler.pay(claim, entry.field("data")))
          .visibility(handler.waitTime())
          .concurrency(4)
          .run(handler.stop()::requested);
    }
  }
}
