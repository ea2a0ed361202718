CREATE INDEX transfers_receiver ON transfers (receiver, created, id)
