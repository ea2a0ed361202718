DROP TABLE room_playback
