CREATE INDEX chat_members_cleared ON chat_members (conversation, cleared_seq)
