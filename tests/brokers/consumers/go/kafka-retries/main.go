// Program kafka-retries is a consumer of Kafka that copies a message that comes later to a topic: its partition goes on.
package main

import "brokers.example/consumers/handler"

func main() { handler.Kafka("orders.retry") }
