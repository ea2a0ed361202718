DROP INDEX room_links_room{{on room_links}}
