ALTER TABLE codes DROP COLUMN tries_elsewhere
