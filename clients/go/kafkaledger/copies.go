package kafkaledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// ReasonHeader is the header of a dead letter that says why it is one.
	ReasonHeader = "dead-letter-reason"
	// DueHeader is the header of a copy in Retry that says when it is due, in decimal milliseconds since 1970 UTC.
	DueHeader = "retry-at"
)

// copy stores a copy of a message in a topic, and returns nil when Kafka has confirmed it.
//
// Its timestamp is new: by the original one the retention of the topic might delete it immediately.
func (r *run) copy(record *kgo.Record, topic string, more kgo.RecordHeader) error {
	letter := &kgo.Record{Topic: topic, Key: record.Key, Value: record.Value}
	for _, header := range record.Headers {
		if header.Key != DueHeader && header.Key != more.Key {
			letter.Headers = append(letter.Headers, header)
		}
	}
	letter.Headers = append(letter.Headers, more)
	ctx, cancel := r.pool.Bounded(callWait)
	defer cancel()
	return r.client.ProduceSync(ctx, letter).FirstErr()
}

// Errors of reading that stay.
var lasting = []error{
	kgo.ErrClientClosed, kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.ClusterAuthorizationFailed,
	kerr.SaslAuthenticationFailed, kerr.InconsistentGroupProtocol, kerr.FencedInstanceID, kerr.InvalidSessionTimeout,
	kerr.InvalidTopicException, kerr.GroupMaxSizeReached, kerr.UnsupportedVersion,
}

// failed logs what cannot be read for now, and ends the run where that stays so.
func (r *run) failed(topic string, number int32, err error) {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return // The poll was ended.
	}
	for _, each := range lasting {
		if errors.Is(err, each) {
			r.pool.Fail(fmt.Errorf("no message can be read: %w", err))
			return
		}
	}
	var lost *kgo.ErrDataLoss
	if errors.As(err, &lost) {
		r.pool.Error("messages are lost: a partition has fewer than before", err.Error())
		return
	}
	r.pool.Warn("messages cannot be read for now", fmt.Sprintf("%s/%d: %v", topic, number, err))
}

// committed logs commits that failed: what they had is committed with the next one, or delivered again.
func (r *run) committed(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error) {
	if err == nil && answer != nil {
		for _, topic := range answer.Topics {
			for _, each := range topic.Partitions {
				err = errors.Join(err, kerr.ErrorForCode(each.ErrorCode))
			}
		}
	}
	if err != nil && !r.pool.Ended() {
		r.pool.Warn("offsets are not committed; their messages may be delivered again", err.Error())
	}
}

// leave commits what is done, and leaves the group. While the group rebalances, a member that stands still delays both.
func (r *run) leave() {
	ctx, cancel := r.pool.Bounded(leaveWait)
	defer cancel()
	r.client.AllowRebalance()
	if err := r.client.CommitMarkedOffsets(ctx); err != nil {
		r.pool.Warn("offsets are not committed; their messages are delivered again", err.Error())
	}
	// A static member has nothing to leave: what fails is the end of its own work, which a rebalance delays.
	if r.client.LeaveGroupContext(ctx) != nil && !isStatic(r.client) {
		r.leaveAmidRebalance()
	}
}

// isStatic reports whether the client has an instance ID. A static member stays in its group until its session ends, so that the
// client can rejoin without a rebalance.
func isStatic(client *kgo.Client) bool {
	instance := client.OptValues(kgo.InstanceID)
	return instance[1].(bool)
}

// leaveAmidRebalance sends the LeaveGroup request, which the client itself sends only after its join is answered. Without this
// request the group waits for the end of this member's session. The broker answers it at any time.
func (r *run) leaveAmidRebalance() {
	ctx, cancel := r.pool.Bounded(closeWait)
	defer cancel()
	request, member := kmsg.NewPtrLeaveGroupRequest(), kmsg.NewLeaveGroupRequestMember()
	if member.MemberID, _ = r.client.GroupMetadata(); member.MemberID == "" {
		r.pool.Warn("the group waits for the end of this member's session", "the broker has not yet named the member")
		return
	}
	request.Group, request.MemberID, request.Members = r.Group, member.MemberID, []kmsg.LeaveGroupRequestMember{member}
	answer, err := request.RequestWith(ctx, r.client)
	if err = errors.Join(err, refusal(answer)); err != nil {
		r.pool.Warn("the group waits for the end of this member's session", err.Error())
	}
}

// refusal returns the errors of the group and of its member; nil if the answer has no error, or if answer is nil. A member that the
// broker no longer knows has left.
func refusal(answer *kmsg.LeaveGroupResponse) error {
	if answer == nil {
		return nil
	}
	codes := []int16{answer.ErrorCode}
	for _, member := range answer.Members {
		codes = append(codes, member.ErrorCode)
	}
	var all error
	for _, code := range codes {
		if err := kerr.ErrorForCode(code); !errors.Is(err, kerr.UnknownMemberID) {
			all = errors.Join(all, err)
		}
	}
	return all
}

// close closes the client. It leaves its group first, and waits for that as long as another member delays a rebalance: perhaps for
// minutes. Then it goes on in the background.
func (r *run) close() {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		r.client.CloseAllowingRebalance()
	}()
	select {
	case <-closed:
	case <-time.After(closeWait):
	}
}
