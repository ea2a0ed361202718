CREATE INDEX room_danmaku_at ON room_danmaku (room_id, at)
