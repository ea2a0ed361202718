DROP TABLE message_files
