package main

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"idempotency-ledger.internal/ledger/ledgerv1"
)

// How often a call is repeated by its caller, as docs/clients.md, rule 4, says.
const repeats = 3

type consumer struct {
	ledger *connection
	name   string
	counts *counter
}

// deliver claims the messages, has the effect of each that is granted, and completes it.
func (c *consumer) deliver(messages []message) {
	var requests []*ledgerv1.ClaimRequest
	for _, one := range messages {
		requests = append(requests, &ledgerv1.ClaimRequest{Key: c.key(one.ID), ClaimId: uuid.NewString(), Owner: "direct"})
	}
	answers := c.claim(requests)
	var granted []*message
	var effects []*ledgerv1.CompleteRequest
	for at := range messages {
		one := &messages[at]
		if answers == nil {
			one.End = "no answer to its claim"
			continue
		}
		switch verdict := answers[at].GetVerdict().(type) {
		case *ledgerv1.ClaimResponse_Acquired:
			one.Effects++
			one.End = "no answer to its completion"
			granted = append(granted, one)
			effects = append(effects, &ledgerv1.CompleteRequest{
				Key: c.key(one.ID), Token: verdict.Acquired.GetToken(), Result: []byte(one.ID)})
		case *ledgerv1.ClaimResponse_Completed:
			one.End = "completed"
		default:
			one.End = fmt.Sprintf("claimed: %v", answers[at])
		}
	}
	if len(granted) == 0 {
		return
	}
	for at, end := range c.complete(effects) {
		granted[at].End = end
	}
}

func (c *consumer) key(id string) *ledgerv1.EntryKey {
	return &ledgerv1.EntryKey{Consumer: c.name, Source: "tests", Id: id}
}

// claim returns nil where the call was given up.
func (c *consumer) claim(requests []*ledgerv1.ClaimRequest) []*ledgerv1.ClaimResponse {
	if len(requests) > 1 {
		return call(c, c.ledger.BatchClaim, &ledgerv1.BatchClaimRequest{Requests: requests}).GetResponses()
	}
	if answer := call(c, c.ledger.Claim, requests[0]); answer != nil {
		return []*ledgerv1.ClaimResponse{answer}
	}
	return nil
}

// complete returns how each message ended; nothing where the call was given up.
func (c *consumer) complete(requests []*ledgerv1.CompleteRequest) (ends []string) {
	if len(requests) == 1 {
		if call(c, c.ledger.Complete, requests[0]) != nil {
			ends = append(ends, "completed")
		}
		return ends
	}
	settle := &ledgerv1.BatchSettleRequest{}
	for _, request := range requests {
		action := &ledgerv1.Settlement_Complete{Complete: request}
		settle.Settlements = append(settle.Settlements, &ledgerv1.Settlement{Action: action})
	}
	for _, result := range call(c, c.ledger.BatchSettle, settle).GetResults() {
		end := "completed"
		if result.GetComplete() == nil {
			end = fmt.Sprintf("settled: %v", result)
		}
		ends = append(ends, end)
	}
	return ends
}

// call has no deadline of its own: the service config has one. It returns nil where it gave up.
func call[Request, Answer any](
	c *consumer, method func(context.Context, *Request, ...grpc.CallOption) (*Answer, error), request *Request,
) *Answer {
	for range 1 + repeats {
		var header, trailer metadata.MD
		began := time.Now()
		answer, err := method(context.Background(), request, grpc.Header(&header), grpc.Trailer(&trailer))
		c.counts.called(time.Since(began))
		if err == nil {
			return answer
		}
		c.counts.failed(err, header, trailer)
	}
	c.counts.gaveUp()
	return nil
}
