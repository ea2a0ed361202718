CREATE INDEX outbox_topic ON outbox (topic, dead, due)
