DROP INDEX room_restrictions_muted{{on room_restrictions}}
