CREATE INDEX messages_rev ON messages (conversation, rev)
