ALTER TABLE room_lines DROP COLUMN guest
