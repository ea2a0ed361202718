DROP TABLE room_danmaku
