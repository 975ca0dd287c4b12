package main

import (
	"log"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	// Without it the service config's health checks are left out.
	_ "google.golang.org/grpc/health"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"idempotency-ledger.internal/ledger/ledgerv1"
)

// connection is one to all servers.
type connection struct {
	ledgerv1.LedgerServiceClient
	*grpc.ClientConn
}

// connect names the addresses itself: a service in real life has a name that stands for them all.
func connect(servers []string, serviceConfig string) *connection {
	names := manual.NewBuilderWithScheme("servers")
	var endpoints []resolver.Endpoint
	for _, server := range servers {
		endpoints = append(endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: server}}})
	}
	names.InitialState(resolver.State{Endpoints: endpoints})
	channel, err := grpc.NewClient("servers:///ledger",
		grpc.WithResolvers(names),
		grpc.WithDefaultServiceConfig(serviceConfig),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	return &connection{ledgerv1.NewLedgerServiceClient(channel), channel}
}
