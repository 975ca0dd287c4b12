package ledger

import (
	"sync"
	"time"
)

const closeGrace = 20 * time.Second

// inflight counts the deliveries that are under way, so that a close can wait for them.
type inflight struct {
	mu      sync.Mutex
	count   int
	closing bool
	idle    chan struct{}
}

// enter begins a delivery; false where none is taken any more.
func (i *inflight) enter() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.closing {
		i.count++
	}
	return !i.closing
}

// leave ends a delivery.
func (i *inflight) leave() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.count--
	if i.closing && i.count == 0 {
		close(i.idle)
	}
}

// close refuses new deliveries. The channel is closed when no delivery is under way.
func (i *inflight) close() <-chan struct{} {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.closing {
		i.closing, i.idle = true, make(chan struct{})
		if i.count == 0 {
			close(i.idle)
		}
	}
	return i.idle
}

func (i *inflight) closes() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.closing
}
