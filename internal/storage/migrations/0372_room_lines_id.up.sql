ALTER TABLE room_lines ADD COLUMN id {{id}}
