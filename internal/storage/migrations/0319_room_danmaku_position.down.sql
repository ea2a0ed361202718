DROP INDEX room_danmaku_position{{on room_danmaku}}
