DROP INDEX group_bans_user{{on group_bans}}
