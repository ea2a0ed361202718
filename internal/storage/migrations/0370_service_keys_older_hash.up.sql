ALTER TABLE service_keys ADD COLUMN older_hash {{text 43}} NOT NULL DEFAULT ''
