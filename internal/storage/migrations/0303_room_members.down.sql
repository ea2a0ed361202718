DROP TABLE room_members
