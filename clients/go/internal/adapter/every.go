package adapter

import (
	"sync"
	"time"
)

// Timer calls a function again and again until it is stopped.
type Timer struct {
	mu      sync.Mutex
	stopped bool
	timer   *time.Timer
}

// Every calls the function each time the interval has passed. No goroutine waits meanwhile.
func Every(interval time.Duration, call func()) *Timer {
	t := &Timer{}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer = time.AfterFunc(interval, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if !t.stopped {
			call()
			t.timer.Reset(interval)
		}
	})
	return t
}

// Stop ends the calls, and returns when the last one has returned.
func (t *Timer) Stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	t.timer.Stop()
}
