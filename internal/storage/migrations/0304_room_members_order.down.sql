DROP INDEX room_members_order{{on room_members}}
