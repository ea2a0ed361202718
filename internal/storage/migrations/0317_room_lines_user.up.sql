CREATE INDEX room_lines_user ON room_lines (user_id)
