DROP INDEX message_files_file{{on message_files}}
