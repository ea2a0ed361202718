ALTER TABLE chat_members DROP COLUMN marked
