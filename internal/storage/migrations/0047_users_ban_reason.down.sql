ALTER TABLE users DROP COLUMN ban_reason
