CREATE INDEX room_danmaku_user ON room_danmaku (user_id)
