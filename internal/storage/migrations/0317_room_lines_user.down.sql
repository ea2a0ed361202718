DROP INDEX room_lines_user{{on room_lines}}
