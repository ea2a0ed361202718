DROP TABLE chat_members
