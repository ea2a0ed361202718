CREATE INDEX push_chats_at ON push_chats (at)
