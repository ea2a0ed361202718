ALTER TABLE service_keys DROP COLUMN older_until
