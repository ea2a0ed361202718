CREATE INDEX idempotency_keys_expires ON idempotency_keys (expires)
