DROP INDEX group_links_expires{{on group_links}}
