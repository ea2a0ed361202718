DROP INDEX room_links_by{{on room_links}}
