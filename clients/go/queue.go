package ledger

import (
	"slices"
	"time"

	"idempotency-ledger.internal/ledger/ledgerv1"
)

const (
	pollWait     = 5 * time.Second  // of a ClaimNext: the end of a context is obeyed after it
	assumedLease = 30 * time.Second // before the first handout says what the policy's is
	aheadMax     = 10               // messages that each handler has at hand: other workers may be free for the rest
	handoutMax   = 1000
	// A message whose lease ran out twice in a row is handed out alone: it may kill the process that runs it.
	suspectAttempt = 3
	workersMax     = 1000
)

// workItem is a message that this process was handed out.
type workItem struct {
	hold    *hold
	message StoredMessage
	ended   func(outcome)
	// alone: a suspect; no other handler of this worker runs meanwhile.
	alone bool
}

// holdsUp reports whether it waits to run alone. A lost claim ends without a handler, so that it may begin next to others.
func (i *workItem) holdsUp() bool { return i.alone && !i.hold.isLost() }

// workQueue is the messages of a worker that wait, and those that run. Its worker guards it.
type workQueue struct {
	concurrency int
	lease       time.Duration
	waiting     []*workItem
	running     map[Key]*workItem
	took        time.Duration // of a slow recent handler; 0: none has ended
}

// room is how many messages to ask for now; 0 while enough wait, and while a suspect waits or runs.
func (q *workQueue) room() int {
	if len(q.waiting) >= q.concurrency || q.runsAlone() || slices.ContainsFunc(q.waiting, (*workItem).holdsUp) {
		return 0
	}
	// All leases of a handout begin with it: it is at most what half of a lease suffices for.
	ahead := 1
	if q.took > 0 {
		ahead = max(1, min(aheadMax, int(q.lease/(2*max(q.took, time.Millisecond)))))
	}
	return max(0, min(handoutMax, q.concurrency*ahead-len(q.waiting)-len(q.running)))
}

// wait is how long a ClaimNext may wait: a quarter of the lease, which counts from before the call.
func (q *workQueue) wait() time.Duration { return min(pollWait, q.lease/4) }

// add adds a handout that has arrived.
func (q *workQueue) add(items []*workItem) {
	for _, item := range items {
		granted := item.hold.granted
		q.lease = granted.GetLease().AsDuration()
		item.alone = len(items) == 1 && granted.GetEffectUnknown() && granted.GetAttempt() >= suspectAttempt
		q.waiting = append(q.waiting, item)
	}
}

// runsAlone reports whether a suspect runs.
func (q *workQueue) runsAlone() bool {
	for _, item := range q.running {
		if item.alone {
			return true
		}
	}
	return false
}

// next is the next message to run, which counts as running from now on; nil while none may begin.
func (q *workQueue) next() *workItem {
	if len(q.running) >= q.concurrency || q.runsAlone() {
		return nil
	}
	for at, item := range q.waiting {
		if item.holdsUp() && len(q.running) > 0 {
			return nil
		}
		// A handler of an earlier attempt, whose lease was lost, may still run here.
		if _, runs := q.running[item.message.Key]; !runs {
			q.waiting = append(q.waiting[:at:at], q.waiting[at+1:]...)
			q.running[item.message.Key] = item
			item.alone = item.holdsUp()
			return item
		}
	}
	return nil
}

// end notes that the handler has ended after this time.
func (q *workQueue) end(item *workItem, took time.Duration) {
	delete(q.running, item.message.Key)
	q.took = max(took, q.took-(q.took-took)/10, 1)
}

// drain is the messages that have not begun; none of them begins any more.
func (q *workQueue) drain() []*workItem {
	left := q.waiting
	q.waiting = nil
	return left
}

// claimOf is the Claim that a message of a handout stands for.
func claimOf(request *ledgerv1.ClaimNextRequest, handed *ledgerv1.Handed) *ledgerv1.ClaimRequest {
	return &ledgerv1.ClaimRequest{Key: handed.GetKey(), Lease: request.GetLease(), EventType: handed.GetMessage().GetEventType()}
}
