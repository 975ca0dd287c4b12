package main

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"

	"idempotency-ledger.internal/ledger"
	"idempotency-ledger.internal/ledger/ledgerhttp"
	"subjects/wire"
)

// serve serves the application, and says where.
func serve(command wire.Command) {
	l, err := ledger.New(command.Consumer, ledger.Options{Endpoint: *command.Endpoint})
	if err != nil {
		log.Fatal(err)
	}
	settings := ledgerhttp.Settings{
		Tenant:    func(r *http.Request) string { return r.Header.Get("X-Tenant") },
		Optional:  command.Required != nil && !*command.Required,
		Wait:      seconds(command.Wait),
		ResultMax: command.ResultMax, BodyMax: command.BodyMax,
	}
	if command.Reread {
		settings.Reread = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			_, _ = io.WriteString(w, "read again")
		})
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	wire.Say("serving", wire.Fields{"address": listener.Addr().String()})
	protected := ledgerhttp.Middleware(l, settings)(http.HandlerFunc(application))
	go func() { log.Fatal(http.Serve(listener, recovering(protected))) }()
}

// recovering answers 500 where the application panics, as the recovery of most routers does.
func recovering(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if recover() != nil {
				w.WriteHeader(http.StatusInternalServerError)
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// application takes the steps that a request's header names.
func application(w http.ResponseWriter, r *http.Request) {
	call := r.Header.Get("X-Call")
	claim := ledgerhttp.ClaimFrom(r.Context())
	going := wire.Going(call)
	var steps []wire.Step
	if err := json.Unmarshal([]byte(r.Header.Get("X-Steps")), &steps); err != nil {
		log.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, r.Body)
	for _, step := range steps {
		switch step.Do {
		case "effect":
			token, key := "0", call
			if claim != nil {
				token, key = wire.Text(claim.Token()), claim.IdempotencyKey()
			}
			wire.Say("effect", wire.Fields{"call": call, "id": call, "token": token, "idempotency_key": key})
			<-going
		case "pause":
			wire.Say("paused", wire.Fields{"call": call})
			if !waited(r.Context(), going) {
				return
			}
		case "announce":
			if err := claim.Announce(r.Context()); err != nil {
				panic(err)
			}
		case "raise":
			panic("no answer")
		case "answer":
			w.Header().Set("Content-Type", "text/plain")
			w.Header().Set("Location", "/orders/1")
			w.Header().Set("X-Private", "not stored")
			w.WriteHeader(step.Status)
			_, _ = w.Write(step.Content(step.Body))
			return
		}
	}
	w.WriteHeader(http.StatusNoContent)
}

func waited(ctx context.Context, going chan struct{}) bool {
	select {
	case <-going:
		return true
	case <-ctx.Done():
		return false
	}
}
