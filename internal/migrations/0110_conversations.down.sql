DROP TABLE conversations
