DROP TABLE direct_chats
