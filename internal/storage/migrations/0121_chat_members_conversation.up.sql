CREATE INDEX chat_members_conversation ON chat_members (conversation)
