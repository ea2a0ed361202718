DROP INDEX group_members_order{{on group_members}}
