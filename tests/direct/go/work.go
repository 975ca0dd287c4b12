package main

import (
	"sync"
	"sync/atomic"

	"github.com/google/uuid"
)

const (
	// Every message comes twice, as from a broker that has not heard the acknowledgement.
	deliveries = 2
	// So many messages are in a batch.
	batch = 10
)

// message is what became of a message.
type message struct {
	Consumer string `json:"consumer"`
	ID       string `json:"id"`
	// How often its effect was had.
	Effects int `json:"effects"`
	// How its last delivery ended.
	End string `json:"end"`
}

// work is all consumers together.
type work struct {
	counts   counter
	over     atomic.Bool
	running  sync.WaitGroup
	lock     sync.Mutex
	messages []message
}

func begin(consumers []string, connect func() *connection) *work {
	all := &work{counts: counter{counts: counts{Failures: map[string]int{}}}}
	for number, name := range consumers {
		size := 1
		if number == 0 {
			size = batch
		}
		all.running.Go(func() { all.consume(name, size, connect) })
	}
	return all
}

// consume has a connection of its own, as a process of its own would.
func (all *work) consume(name string, size int, connect func() *connection) {
	ledger := connect()
	defer ledger.Close()
	one := consumer{ledger: ledger, name: name, counts: &all.counts}
	for !all.over.Load() {
		messages := make([]message, size)
		for at := range messages {
			messages[at] = message{Consumer: name, ID: uuid.NewString()}
		}
		for range deliveries {
			one.deliver(messages)
		}
		all.lock.Lock()
		all.messages = append(all.messages, messages...)
		all.lock.Unlock()
	}
}

func (all *work) end() counts {
	all.over.Store(true)
	all.running.Wait()
	return all.counts.sofar()
}
