CREATE INDEX room_items_place ON room_items (room_id, place)
