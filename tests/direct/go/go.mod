module direct

go 1.27.3

require (
	github.com/google/uuid v1.6.0
	google.golang.org/grpc v1.85.0
	idempotency-ledger.internal/ledger v0.0.0
)

require (
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	golang.org/x/text v0.42.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260817212433-ac3dfec99bb1 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

// The generated messages are those of the client package.
replace idempotency-ledger.internal/ledger => ../../../clients/go
