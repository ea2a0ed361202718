DROP TABLE hidden_messages
