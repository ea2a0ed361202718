DROP INDEX room_danmaku_user{{on room_danmaku}}
