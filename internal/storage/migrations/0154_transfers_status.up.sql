CREATE INDEX transfers_status ON transfers (status, expires)
