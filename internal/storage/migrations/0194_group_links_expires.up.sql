CREATE INDEX group_links_expires ON group_links (expires)
