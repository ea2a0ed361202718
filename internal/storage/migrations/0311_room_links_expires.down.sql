DROP INDEX room_links_expires{{on room_links}}
