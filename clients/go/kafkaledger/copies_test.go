package kafkaledger

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestRefusalHasTheErrorsOfGroupAndMember(t *testing.T) {
	for _, row := range []struct {
		group, member *kerr.Error
		want          []error
	}{
		{nil, nil, nil},
		{kerr.CoordinatorNotAvailable, nil, []error{kerr.CoordinatorNotAvailable}},
		{nil, kerr.FencedInstanceID, []error{kerr.FencedInstanceID}},
		{kerr.NotCoordinator, kerr.FencedInstanceID, []error{kerr.NotCoordinator, kerr.FencedInstanceID}},
		{kerr.UnknownMemberID, nil, nil}, // It has left.
		{nil, kerr.UnknownMemberID, nil},
	} {
		answer, member := kmsg.NewPtrLeaveGroupResponse(), kmsg.NewLeaveGroupResponseMember()
		if row.group != nil {
			answer.ErrorCode = row.group.Code
		}
		if row.member != nil {
			member.ErrorCode = row.member.Code
		}
		answer.Members = []kmsg.LeaveGroupResponseMember{member}
		err := refusal(answer)
		if (err == nil) != (row.want == nil) {
			t.Errorf("%v and %v: %v", row.group, row.member, err)
		}
		for _, want := range row.want {
			if !errors.Is(err, want) {
				t.Errorf("%v and %v: %v", row.group, row.member, err)
			}
		}
	}
	if err := refusal(nil); err != nil {
		t.Errorf("without an answer: %v", err)
	}
}

func TestMemberWithAnInstanceIDIsStatic(t *testing.T) {
	for _, row := range []struct {
		options []kgo.Opt
		want    bool
	}{
		{nil, false},
		{[]kgo.Opt{kgo.InstanceID("one")}, true},
	} {
		client, err := kgo.NewClient(row.options...)
		if err != nil {
			t.Fatal(err)
		}
		if isStatic(client) != row.want {
			t.Errorf("%v: %v", row.options, isStatic(client))
		}
		client.Close()
	}
}
