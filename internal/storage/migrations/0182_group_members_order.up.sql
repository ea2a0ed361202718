CREATE INDEX group_members_order ON group_members (group_id, gone, role DESC, joined, user_id)
