CREATE INDEX group_links_group ON group_links (group_id, by_id)
