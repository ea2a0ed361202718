DROP INDEX room_members_seen{{on room_members}}
