DROP INDEX room_lines_id{{on room_lines}}
