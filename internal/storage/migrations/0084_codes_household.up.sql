ALTER TABLE codes ADD COLUMN household {{text 45}} NOT NULL DEFAULT ''
