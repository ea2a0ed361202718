ALTER TABLE users ADD COLUMN external_id {{text 128}}
