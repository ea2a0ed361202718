ALTER TABLE codes DROP COLUMN household
