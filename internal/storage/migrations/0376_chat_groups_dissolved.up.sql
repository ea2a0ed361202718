CREATE INDEX chat_groups_dissolved ON chat_groups (dissolved)
