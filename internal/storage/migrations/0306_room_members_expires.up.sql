CREATE INDEX room_members_expires ON room_members (expires)
