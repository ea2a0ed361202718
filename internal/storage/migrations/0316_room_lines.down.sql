DROP TABLE room_lines
