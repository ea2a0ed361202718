DROP TABLE group_bans
