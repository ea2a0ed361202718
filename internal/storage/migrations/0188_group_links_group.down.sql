DROP INDEX group_links_group{{on group_links}}
