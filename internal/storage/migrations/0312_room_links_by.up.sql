CREATE INDEX room_links_by ON room_links (by_id)
