DROP INDEX room_members_user{{on room_members}}
