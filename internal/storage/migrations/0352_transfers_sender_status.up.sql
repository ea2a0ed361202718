CREATE INDEX transfers_sender_status ON transfers (sender, status)
