DROP INDEX group_members_user{{on group_members}}
