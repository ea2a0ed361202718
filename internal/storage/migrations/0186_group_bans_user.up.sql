CREATE INDEX group_bans_user ON group_bans (user_id)
