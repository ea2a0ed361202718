CREATE INDEX transfers_sender ON transfers (sender, created, id)
