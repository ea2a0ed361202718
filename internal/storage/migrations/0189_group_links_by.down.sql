DROP INDEX group_links_by{{on group_links}}
