CREATE INDEX group_links_by ON group_links (by_id)
