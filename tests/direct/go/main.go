// Program direct has consumers that reach the servers themselves, by nothing but the service config that is given.
//
// To each line of its input it answers with a line of JSON: what it has counted so far. When its input ends, it finishes
// the messages that it has begun, and tells of each. The suite of tests/direct starts it and judges what it says.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"log"
	"os"
	"strings"

	"google.golang.org/grpc"
)

func main() {
	servers := flag.String("servers", "", "the servers' addresses, with commas between them")
	config := flag.String("service-config", "", "a file with the service config")
	consumers := flag.String("consumers", "", "the name of each consumer, with commas between them; the first one does batches")
	flag.Parse()
	text, err := os.ReadFile(*config)
	if err != nil {
		log.Fatal(err)
	}

	work := begin(strings.Split(*consumers, ","), func() *connection {
		return connect(strings.Split(*servers, ","), string(text))
	})
	answers := json.NewEncoder(os.Stdout)
	tell := func(what any) {
		if err := answers.Encode(what); err != nil {
			log.Fatal(err)
		}
	}
	for questions := bufio.NewScanner(os.Stdin); questions.Scan(); {
		tell(work.counts.sofar())
	}
	tell(report{Version: grpc.Version, Counts: work.end(), Messages: work.messages})
}

// report is the last line.
type report struct {
	Version  string    `json:"version"`
	Counts   counts    `json:"counts"`
	Messages []message `json:"messages"`
}
