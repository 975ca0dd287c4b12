// Program kafka is a consumer of Kafka: a message that comes later stops its partition.
package main

import "brokers.example/consumers/handler"

func main() { handler.Kafka("") }
