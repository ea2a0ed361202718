ALTER TABLE conversations ADD COLUMN uncounted {{text 2100}} NOT NULL DEFAULT ''
