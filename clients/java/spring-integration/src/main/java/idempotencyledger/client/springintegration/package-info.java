/** Spring Integration's metadata store over the ledger, for its idempotent receiver. */
package idempotencyledger.client.springintegration;
