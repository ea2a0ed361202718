ALTER TABLE conversations DROP COLUMN uncounted
