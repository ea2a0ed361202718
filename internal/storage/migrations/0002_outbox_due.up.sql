CREATE INDEX outbox_due ON outbox (dead, due)
