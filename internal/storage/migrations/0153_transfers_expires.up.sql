CREATE INDEX transfers_expires ON transfers (expires)
