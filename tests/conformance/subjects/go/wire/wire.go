// Package wire has the lines that subjects read and write.
package wire

import (
	"bufio"
	"encoding/json"
	"errors"
	"log"
	"os"
	"strings"
	"sync"

	"idempotency-ledger.internal/ledger"
)

// Command is a line of the input.
type Command struct {
	Do, Ledger, Consumer, Call, Source, ID string
	Endpoint                               *string
	Body                                   *string
	Steps                                  []Step
	Lease, Wait, Grace                     float64
	RepeatAnnounced                        bool   `json:"repeat_announced"`
	ClientCertFile                         string `json:"client_cert_file"`
	ClientKeyFile                          string `json:"client_key_file"`
	Required                               *bool
	ResultMax                              int   `json:"result_max"`
	BodyMax                                int64 `json:"body_max"`
	Reread                                 bool
	Payload                                string
	Bytes, Concurrency                     int
	Headers                                map[string]string
	StepsOf                                map[string][]Step `json:"steps_of"`
}

// Step is one of a handler.
type Step struct {
	Do, Error, Text, Checkpoint, Result, Body string
	After                                     *float64
	Unpin                                     bool
	Bytes, Status                             int
}

// Content is that many bytes as the step names, or its text.
func (s Step) Content(text string) []byte {
	if s.Bytes > 0 {
		return []byte(strings.Repeat("x", s.Bytes))
	}
	return []byte(text)
}

// Fields are those of an event.
type Fields map[string]any

var writing sync.Mutex

// Say writes an event.
func Say(event string, fields Fields) {
	if fields == nil {
		fields = Fields{}
	}
	fields["event"] = event
	line, err := json.Marshal(fields)
	if err != nil {
		log.Fatal(err)
	}
	writing.Lock()
	defer writing.Unlock()
	if _, err := os.Stdout.Write(append(line, '\n')); err != nil {
		log.Fatal(err)
	}
}

// Commands calls the function with each command, until the input ends.
func Commands(obey func(Command)) {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var command Command
		if err := json.Unmarshal(lines.Bytes(), &command); err != nil {
			log.Fatal(err)
		}
		obey(command)
	}
}

var (
	waiting sync.Mutex
	going   = map[string]chan struct{}{}
)

// Going is sent a value for each `go` of a call; one that arrives early is kept.
func Going(call string) chan struct{} {
	waiting.Lock()
	defer waiting.Unlock()
	if going[call] == nil {
		going[call] = make(chan struct{}, 64)
	}
	return going[call]
}

// Started says what a handler was given.
func Started(claim *ledger.Claim, call string) {
	Say("started", Fields{"call": call, "token": Text(claim.Token()), "attempt": claim.Attempt(), "idempotency_key": claim.IdempotencyKey(),
		"effect_unknown": claim.EffectUnknown(), "checkpoint": string(claim.Checkpoint())})
}

// Finished says what became of a delivery.
func Finished(call string, outcome ledger.Outcome[[]byte]) {
	var result, reason any
	if outcome.HasResult {
		result = string(outcome.Result)
	}
	if outcome.Reason != "" {
		reason = outcome.Reason
	}
	Say("outcome", Fields{"call": call, "advice": outcome.Advice.String(), "delay": outcome.Delay.Seconds(), "result": result,
		"reason": reason, "replayed": outcome.Replayed, "result_dropped": outcome.ResultDropped, "effect_unknown": outcome.EffectUnknown})
}

// Failed says what the package has refused.
func Failed(call string, err error) {
	name, field := "error", ""
	var invalid *ledger.InvalidFieldError
	if errors.As(err, &invalid) {
		name, field = "InvalidField", invalid.Field
	} else if errors.Is(err, ledger.ErrClosed) {
		name = "Closed"
	}
	Say("error", Fields{"call": call, "error": name, "field": field, "text": err.Error()})
}

// Text is a token as text.
func Text(token int64) string {
	text, _ := json.Marshal(token)
	return string(text)
}
