CREATE INDEX room_bans_user ON room_bans (user_id)
