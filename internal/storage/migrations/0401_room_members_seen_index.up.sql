CREATE INDEX room_members_seen ON room_members (seen)
