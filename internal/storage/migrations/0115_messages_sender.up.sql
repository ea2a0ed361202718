CREATE INDEX messages_sender ON messages (sender)
