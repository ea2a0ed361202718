CREATE INDEX group_members_user ON group_members (user_id, gone, joined)
