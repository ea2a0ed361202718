CREATE INDEX chat_members_changed ON chat_members (changed)
