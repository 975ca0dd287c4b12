-- The SHA-256 of the request that wrote an event: distinguishes a repeat from another request with the same id. Empty:
-- the event is from before this column. From the column on, request_id holds the consumer, the byte 0x1F, and the id that
-- the operator gave: an id belongs to a consumer. In older events it is the id alone.
ALTER TABLE ledger.audit ADD COLUMN digest bytea;
