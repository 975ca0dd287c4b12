// Package payments stands for a provider that knows idempotency keys.
package payments

import (
	"context"

	"example.com/shop/broker"
)

// Charge asks for an effect. The provider knows no token; the scenario's sink counts the effects by their key.
func Charge(_ context.Context, body []byte, idempotencyKey string) (string, error) {
	call := "charge-" + string(body)
	broker.Say(map[string]any{"event": "effect", "call": call, "id": string(body), "token": "0", "idempotency_key": idempotencyKey})
	<-broker.Going(call)
	return "paid", nil
}
