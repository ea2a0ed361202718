CREATE UNIQUE INDEX room_lines_id ON room_lines (id)
