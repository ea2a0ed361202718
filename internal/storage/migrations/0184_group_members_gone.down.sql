DROP INDEX group_members_gone{{on group_members}}
