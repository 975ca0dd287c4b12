package redisledger

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// The number of entries whose idle times are set by one command.
const idleBatch = 500

// idle is how long entries of this consumer have been idle, as Redis has it: any consumer of the group takes one that has
// been idle for the visibility.
type idle struct {
	redis               redis.UniversalClient
	stream, group, name string
	visibility          time.Duration

	// mu is held while idle times are set, so that an earlier one never follows a later one.
	mu sync.Mutex
	// running are the entries that are processed here; postponed are those whose delay is longer than the visibility, with
	// the instants at which they are due.
	running   map[string]bool
	postponed map[string]time.Time
}

// begin returns the entries that are not processed here already: a process that stood still takes its own ones.
func (i *idle) begin(entries []redis.XMessage) []redis.XMessage {
	i.mu.Lock()
	defer i.mu.Unlock()
	var fresh []redis.XMessage
	for _, entry := range entries {
		if !i.running[entry.ID] {
			i.running[entry.ID] = true
			delete(i.postponed, entry.ID)
			fresh = append(fresh, entry)
		}
	}
	return fresh
}

func (i *idle) end(entry string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.running, entry)
}

// postpone lets any consumer take the entry after the delay.
func (i *idle) postpone(ctx context.Context, entry string, delay time.Duration) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.running, entry)
	if delay > i.visibility {
		i.postponed[entry] = time.Now().Add(delay)
	}
	return i.set(ctx, []string{entry}, max(i.visibility-delay, 0))
}

// keep sets the idle times of the entries that are processed here back, and of those that are postponed.
func (i *idle) keep(ctx context.Context) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	kept := make([]string, 0, len(i.running))
	for entry := range i.running {
		kept = append(kept, entry)
	}
	due := map[string]time.Duration{}
	for entry, at := range i.postponed {
		if left := time.Until(at); left > i.visibility {
			kept = append(kept, entry)
		} else {
			due[entry] = max(left, 0)
		}
	}
	if err := i.set(ctx, kept, 0); err != nil {
		return err
	}
	for entry, left := range due {
		if err := i.set(ctx, []string{entry}, i.visibility-left); err != nil {
			return err
		}
		delete(i.postponed, entry)
	}
	return nil
}

// set sets how long entries have been idle; one that is not pending any more stays so.
func (i *idle) set(ctx context.Context, entries []string, idle time.Duration) error {
	for len(entries) > 0 {
		part := entries[:min(idleBatch, len(entries))]
		entries = entries[len(part):]
		command := []any{"XCLAIM", i.stream, i.group, i.name, 0}
		for _, entry := range part {
			command = append(command, entry)
		}
		command = append(command, "IDLE", idle.Milliseconds(), "JUSTID")
		if err := i.redis.Do(ctx, command...).Err(); err != nil {
			return err
		}
	}
	return nil
}
