CREATE INDEX room_members_order ON room_members (room_id, role DESC, joined, user_id)
