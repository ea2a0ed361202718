ALTER TABLE chat_groups DROP COLUMN picture
