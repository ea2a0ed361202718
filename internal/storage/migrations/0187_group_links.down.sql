DROP TABLE group_links
