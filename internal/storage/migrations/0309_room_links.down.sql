DROP TABLE room_links
