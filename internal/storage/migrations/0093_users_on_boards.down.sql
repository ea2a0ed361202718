ALTER TABLE users DROP COLUMN on_boards
