DROP INDEX room_members_expires{{on room_members}}
