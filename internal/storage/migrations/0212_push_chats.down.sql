DROP TABLE push_chats
