ALTER TABLE conversations DROP COLUMN high_sent
