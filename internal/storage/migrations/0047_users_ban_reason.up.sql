ALTER TABLE users ADD COLUMN ban_reason {{text 200}} NOT NULL DEFAULT ''
