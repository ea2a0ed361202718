CREATE INDEX room_links_room ON room_links (room_id, by_id)
