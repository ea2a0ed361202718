CREATE INDEX transfers_sender_expires ON transfers (sender, expires)
