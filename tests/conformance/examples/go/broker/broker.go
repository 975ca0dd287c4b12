// Package broker stands for a broker: the scenario delivers, and sees what becomes of it.
package broker

import (
	"bufio"
	"context"
	"encoding/json"
	"iter"
	"log"
	"os"
	"sync"
	"time"
)

// Message is one delivery.
type Message struct {
	ID   string
	Body []byte
	call string
}

var (
	messages = make(chan *Message, 1024)
	lock     sync.Mutex
	going    = map[string]chan struct{}{}
)

// Messages are those that arrive until the context ends.
func Messages(ctx context.Context) iter.Seq[*Message] {
	return func(yield func(*Message) bool) {
		for {
			select {
			case <-ctx.Done():
				return
			case message := <-messages:
				if !yield(message) || ctx.Err() != nil {
					return
				}
			}
		}
	}
}

// Ack acknowledges.
func (m *Message) Ack() { m.done("ACK", 0) }

// DeadLetter stores a copy and acknowledges.
func (m *Message) DeadLetter() { m.done("DEAD_LETTER", 0) }

// Retry has the message delivered again.
func (m *Message) Retry(after time.Duration) { m.done("RETRY_LATER", after.Seconds()) }

func (m *Message) done(advice string, delay float64) {
	Say(map[string]any{"event": "outcome", "call": m.call, "advice": advice, "delay": delay, "reason": nil})
}

// Say writes an event.
func Say(event map[string]any) {
	lock.Lock()
	defer lock.Unlock()
	if err := json.NewEncoder(os.Stdout).Encode(event); err != nil {
		log.Fatal(err)
	}
}

// Going is sent a value when the call may go on.
func Going(call string) chan struct{} {
	lock.Lock()
	defer lock.Unlock()
	if going[call] == nil {
		going[call] = make(chan struct{}, 64)
	}
	return going[call]
}

func read() {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var command struct{ Do, ID, Call string }
		if err := json.Unmarshal(lines.Bytes(), &command); err != nil {
			log.Fatal(err)
		}
		switch command.Do {
		case "process":
			messages <- &Message{ID: command.ID, Body: []byte(command.ID), call: command.Call}
		case "go":
			Going(command.Call) <- struct{}{}
		}
	}
}

func init() {
	go read()
	Say(map[string]any{"event": "ready"})
}
