CREATE INDEX room_links_expires ON room_links (expires)
