// Package limit bounds how often a line of the same kind is logged.
package limit

import (
	"sync"
	"time"
)

const every = time.Second

// Lines counts the lines of each kind, such as the reason of a refusal: one a second is due. The zero value is ready.
type Lines struct {
	mu   sync.Mutex
	last map[string]*logged
}

// logged is when a kind was last logged, and how many were suppressed since.
type logged struct {
	at         time.Time
	suppressed int
}

// Due reports whether a line of this kind may be logged now, and how many were suppressed before it.
func (l *Lines) Due(kind string) (suppressed int, due bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == nil {
		l.last = map[string]*logged{}
	}
	known := l.last[kind]
	if known == nil {
		known = &logged{}
		l.last[kind] = known
	}
	if time.Since(known.at) < every {
		known.suppressed++
		return 0, false
	}
	suppressed = known.suppressed
	known.at, known.suppressed = time.Now(), 0
	return suppressed, true
}
