DROP INDEX idempotency_keys_expires{{on idempotency_keys}}
