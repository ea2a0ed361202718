DROP TABLE chat_settings
