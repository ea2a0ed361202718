ALTER TABLE users DROP COLUMN external_id
