package ledger

import (
	"context"
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
	// ends is cancelled when no new delivery is taken; nil until it is asked for.
	ends context.Context
	end  context.CancelFunc
}

// enter begins a delivery; false where none is taken any more, unless it is always counted.
func (i *inflight) enter(always bool) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	taken := always || !i.closing
	if taken {
		i.count++
	}
	return taken
}

// closed is a context that ends when no new delivery is taken any more.
func (i *inflight) closed() context.Context {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ends == nil {
		i.ends, i.end = context.WithCancel(context.Background())
		if i.closing {
			i.end()
		}
	}
	return i.ends
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
		if i.end != nil {
			i.end()
		}
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
