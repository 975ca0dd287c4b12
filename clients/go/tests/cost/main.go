// Program cost prints what a message costs this process: go run ./cost [-messages N], in the folder clients/go/tests, with a
// server at LEDGER_ENDPOINT.
//
// It compares ledger.Process with a handler that does nothing with the two calls of the generated stubs, Claim and Complete,
// one message after the other; CPU is that of this process alone, user and system. Then it prints goroutines, threads and
// memory at rest.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"idempotency-ledger.internal/ledger"
	"idempotency-ledger.internal/ledger/ledgerv1"
)

const consumer = "cost"

// cpu is what this process has used until now.
func cpu() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		log.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// kind is one way to process a message, and what its messages have used.
type kind struct {
	name       string
	one        func()
	used, took time.Duration
}

// block is how many messages of a kind follow each other: the kinds take turns, so that what else the machine does is in both.
const block = 50

func measured(messages int, kinds ...*kind) {
	for at := -block; at < messages; at += block {
		for _, each := range kinds {
			began, before := time.Now(), cpu()
			for range block {
				each.one()
			}
			if at >= 0 { // The first block connects.
				each.took, each.used = each.took+time.Since(began), each.used+cpu()-before
			}
		}
	}
	for _, each := range kinds {
		fmt.Printf("%-8s %6.1f µs CPU and %6.1f µs a message\n", each.name, micros(each.used, messages), micros(each.took, messages))
	}
}

func micros(d time.Duration, messages int) float64 {
	return float64(d.Microseconds()) / float64(messages)
}

func resting(when string) {
	runtime.GC()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		log.Fatal(err)
	}
	var found []string
	for _, line := range strings.Split(string(status), "\n") {
		if strings.HasPrefix(line, "VmRSS:") || strings.HasPrefix(line, "Threads:") {
			found = append(found, strings.Join(strings.Fields(line), " "))
		}
	}
	fmt.Printf("%s: %d goroutines, %s\n", when, pprof.Lookup("goroutine").Count(), strings.Join(found, ", "))
}

func main() {
	messages := flag.Int("messages", 5000, "how many messages of each kind")
	flag.Parse()
	endpoint := os.Getenv("LEDGER_ENDPOINT")
	ctx := context.Background()

	connection, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	stubs := ledgerv1.NewLedgerServiceClient(connection)
	bare := func() {
		call, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		key := &ledgerv1.EntryKey{Consumer: consumer, Source: "cost", Id: uuid.NewString()}
		answer, err := stubs.Claim(call, &ledgerv1.ClaimRequest{Key: key, ClaimId: uuid.NewString(), Owner: "cost"})
		if err != nil || answer.GetAcquired() == nil {
			log.Fatal(answer, err)
		}
		if _, err := stubs.Complete(call, &ledgerv1.CompleteRequest{Key: key, Token: answer.GetAcquired().GetToken()}); err != nil {
			log.Fatal(err)
		}
	}
	client := ledger.Must(ledger.New(consumer, ledger.Options{}))
	// As in a consumer that ends with a signal.
	stop := ledger.ShutdownContext(time.Second)
	process := func() {
		outcome, err := ledger.Process(stop, client, ledger.Key{Source: "cost", ID: uuid.NewString()},
			func(context.Context, *ledger.Claim) (ledger.None, error) { return ledger.None{}, nil })
		if err != nil || outcome.Advice != ledger.Ack {
			log.Fatal(outcome, err)
		}
	}
	measured(*messages-*messages%block, &kind{name: "stubs", one: bare}, &kind{name: "Process", one: process})
	if err := connection.Close(); err != nil {
		log.Fatal(err)
	}
	resting("at rest, connected")
	if err := client.Close(ctx); err != nil {
		log.Fatal(err)
	}
}
