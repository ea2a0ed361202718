ALTER TABLE push_chats DROP COLUMN sent
