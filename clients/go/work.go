package ledger

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"idempotency-ledger.internal/ledger/ledgerv1"
)

// WorkOptions are those of [Work].
type WorkOptions struct {
	// Concurrency is how many handlers run at the same time, 1 to 1000. 0: 1.
	Concurrency int
	// Grace is how long Work waits for running handlers after its context has ended. 0: 20 s.
	Grace time.Duration
}

// Work processes the messages of the inbox until ctx ends, or the client is closed.
//
// The handler is given what a handler of [Process] is, and the message; it returns what that one does. At most Concurrency
// handlers run at the same time, and never two of one message. A message that waits here for a handler is renewed. At the end
// those that have not begun are released, and those that run end and settle, for at most the Grace.
//
// While a message runs whose lease ran out twice in a row, no other handler of this call runs: it may have killed the earlier
// processes. These bounds hold within one call of Work: a process needs only one.
//
// It returns nil when all handlers have ended; [ErrClosed] and an [*InvalidFieldError] before anything is sent; and an error
// where handlers still run after the Grace.
func Work[T any](
	ctx context.Context, l *Ledger, handler func(context.Context, *Claim, StoredMessage) (T, error), options WorkOptions,
) error {
	if handler == nil {
		return &InvalidFieldError{"handler", "must not be nil"}
	}
	if options.Concurrency == 0 {
		options.Concurrency = 1
	}
	if options.Concurrency < 1 || options.Concurrency > workersMax {
		return &InvalidFieldError{"concurrency", fmt.Sprintf("is %d; 1 to %d are allowed", options.Concurrency, workersMax)}
	}
	if options.Grace == 0 {
		options.Grace = closeGrace
	}
	if !l.inflight.enter(false) {
		return ErrClosed
	}
	defer l.inflight.leave()
	taking, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(l.inflight.closed(), stop)()
	w := &worker{ledger: l, taking: taking, base: context.WithoutCancel(ctx), changed: make(chan struct{}, 1)}
	w.queue = workQueue{concurrency: options.Concurrency, lease: assumedLease, running: map[Key]*workItem{}}
	if l.options.Lease > 0 {
		w.queue.lease = l.options.Lease
	}
	w.run = func(item *workItem) {
		if found, admitted := l.admitted(item.hold, w.stopping); !admitted {
			item.hold.drop()
			item.ended(found)
			return
		}
		processed(newClaim(item.hold, item.ended), func(ctx context.Context, claim *Claim) (T, error) {
			return handler(ctx, claim, item.message)
		})
	}
	w.take()
	return w.drain(options.Grace)
}

// worker is one call of Work.
type worker struct {
	ledger *Ledger
	// taking ends when nothing more may be taken; base has the caller's values, and is never cancelled.
	taking, base context.Context
	run          func(*workItem)
	// changed has a token after a handler has ended, or the claim of a suspect is lost.
	changed chan struct{}

	mu    sync.Mutex
	queue workQueue
}

func (w *worker) stopping() bool { return w.taking.Err() != nil }

// take takes messages until nothing more may be taken.
func (w *worker) take() {
	var request *ledgerv1.ClaimNextRequest
	for !w.stopping() {
		if request == nil {
			if request = w.request(); request == nil {
				select {
				case <-w.changed:
				case <-w.taking.Done():
				}
				continue
			}
		}
		// Not under `taking`: the outcome of a call that is cancelled would be unknown, and its messages held until their leases end.
		answer, sent, failed := repeated(w.base, w.ledger.rpc.ClaimNext, request, claimBudget+request.GetWait().AsDuration(), callTimeout+request.GetWait().AsDuration())
		pause := w.arrived(request, answer, sent, failed)
		if failed == nil || !failed.unknown() { // Else the identical request, with its claim_id, finds what it was handed out.
			request = nil
		}
		sleep(w.taking, pause)
	}
}

// request is the next ClaimNext, with a new claim_id (rule 1); nil while enough messages are at hand.
func (w *worker) request() *ledgerv1.ClaimNextRequest {
	w.mu.Lock()
	defer w.mu.Unlock()
	most := w.queue.room()
	if most == 0 {
		return nil
	}
	request := &ledgerv1.ClaimNextRequest{
		Consumer: w.ledger.consumer, ClaimId: uuid.NewString(), Owner: w.ledger.options.Owner, Max: int32(most),
		Wait: span(w.queue.wait()),
	}
	if w.ledger.options.Lease != 0 {
		request.Lease = span(w.ledger.options.Lease)
	}
	return request
}

// arrived begins what was handed out. It returns how long to wait before the next call.
func (w *worker) arrived(request *ledgerv1.ClaimNextRequest, answer *ledgerv1.ClaimNextResponse, sent time.Time, failed *failure) time.Duration {
	switch {
	case failed != nil && failed.reason == "CLAIM_CLOSED": // What it was handed out has ended: a new claim_id takes the rest.
		return shortestDelay
	case failed != nil:
		found := w.ledger.refused(failed, outcome{})
		w.ledger.report.outcome(found)
		if found.Delay == 0 { // The ledger has other advice than RetryLater, which is for a message.
			return defaultDelay
		}
		return found.Delay
	case len(answer.GetMessages()) == 0:
		return max(answer.GetRetryAfter().AsDuration(), shortestDelay)
	}
	var items []*workItem
	for _, handed := range answer.GetMessages() {
		items = append(items, w.item(claimOf(request, handed), handed, sent))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue.add(items)
	for _, item := range items {
		if item.alone {
			context.AfterFunc(item.hold.handler, func() { w.lost(item) })
		}
	}
	w.begin()
	return 0
}

// lost begins what a suspect that waits has held up, where its claim is lost.
func (w *worker) lost(suspect *workItem) {
	if !suspect.hold.isLost() {
		return // It has ended.
	}
	w.mu.Lock()
	w.begin()
	w.mu.Unlock()
	w.wake()
}

// item is a message of a handout, which is renewed from now on.
func (w *worker) item(claim *ledgerv1.ClaimRequest, handed *ledgerv1.Handed, sent time.Time) *workItem {
	w.ledger.inflight.enter(true)
	ctx, end := w.ledger.telemetry.delivery(w.base)
	h := newHold(ctx, w.ledger, claim, handed.GetAcquired(), sent)
	h.keep() // By this process's clock a long wait may have used up the lease: then it is renewed immediately.
	return &workItem{hold: h, message: storedMessage(handed), ended: func(found outcome) {
		end(found)
		w.ledger.report.outcome(found)
		w.ledger.inflight.leave()
	}}
}

// begin begins what may begin now. The caller holds mu.
func (w *worker) begin() {
	for item := w.queue.next(); item != nil; item = w.queue.next() {
		go w.serve(item)
	}
}

func (w *worker) serve(item *workItem) {
	began, returned := time.Now(), false
	defer func() {
		if !returned {
			if cause := recover(); cause != nil { // Without one the goroutine ends by runtime.Goexit.
				panic(cause) // The process dies: nothing else begins in it.
			}
		}
		w.mu.Lock()
		w.queue.end(item, time.Since(began))
		w.begin()
		w.mu.Unlock()
		w.wake()
	}()
	w.run(item)
	returned = true
}

// wake lets take and drain look at the queue again.
func (w *worker) wake() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// drain releases what has not begun, and waits for what runs.
func (w *worker) drain(grace time.Duration) error {
	ctx, cancel := context.WithTimeout(w.base, grace)
	defer cancel()
	w.mu.Lock()
	left := w.queue.drain()
	w.mu.Unlock()
	for _, item := range left {
		found := later("CLOSING")
		if ctx.Err() == nil && !item.hold.isLost() {
			item.hold.base = ctx
			found = item.hold.givenBack("CLOSING")
		}
		item.hold.drop()
		item.ended(found)
	}
	for {
		w.mu.Lock()
		running := len(w.queue.running)
		w.mu.Unlock()
		if running == 0 {
			return nil
		}
		select {
		case <-w.changed:
		case <-ctx.Done():
			return fmt.Errorf("ledger: %d handlers still run %v after the end of the work", running, grace)
		}
	}
}
