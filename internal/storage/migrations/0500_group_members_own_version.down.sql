ALTER TABLE group_members DROP COLUMN own_version
