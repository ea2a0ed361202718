ALTER TABLE chat_groups ADD COLUMN picture {{text 12}} NOT NULL DEFAULT ''
