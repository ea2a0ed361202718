ALTER TABLE chat_settings DROP COLUMN version
