ALTER TABLE users DROP COLUMN banned_until
