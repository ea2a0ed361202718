CREATE INDEX room_danmaku_position ON room_danmaku (room_id, item, position, id)
