DROP INDEX room_restrictions_user{{on room_restrictions}}
