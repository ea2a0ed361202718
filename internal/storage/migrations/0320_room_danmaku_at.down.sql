DROP INDEX room_danmaku_at{{on room_danmaku}}
