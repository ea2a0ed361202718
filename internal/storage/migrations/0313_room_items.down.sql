DROP TABLE room_items
