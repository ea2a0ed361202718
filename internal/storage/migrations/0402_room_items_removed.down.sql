ALTER TABLE room_items DROP COLUMN removed
