CREATE INDEX conversations_changed ON conversations (changed)
