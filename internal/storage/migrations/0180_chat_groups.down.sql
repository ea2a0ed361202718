DROP TABLE chat_groups
