CREATE INDEX room_members_user ON room_members (user_id, joined)
