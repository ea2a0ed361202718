CREATE INDEX group_members_gone ON group_members (gone)
