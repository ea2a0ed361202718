ALTER TABLE conversations DROP COLUMN title
