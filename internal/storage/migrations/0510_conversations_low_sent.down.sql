ALTER TABLE conversations DROP COLUMN low_sent
