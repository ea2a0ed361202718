DROP TABLE group_members
