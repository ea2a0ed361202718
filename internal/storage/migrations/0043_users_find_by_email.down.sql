ALTER TABLE users DROP COLUMN find_by_email
