/**
 * What this client's other artifacts use as well; not an interface for applications, and it may
 * change. It is public since Java has no access for another artifact's package alone.
 */
package idempotencyledger.client.internal;
