DROP TABLE room_bans
