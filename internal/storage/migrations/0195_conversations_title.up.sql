ALTER TABLE conversations ADD COLUMN title {{text 60}} NOT NULL DEFAULT ''
