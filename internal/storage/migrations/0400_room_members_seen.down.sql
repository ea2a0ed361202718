ALTER TABLE room_members DROP COLUMN seen
