/** Camel's idempotent repository over the ledger. */
package idempotencyledger.client.camel;
