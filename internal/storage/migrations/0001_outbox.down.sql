DROP TABLE outbox
