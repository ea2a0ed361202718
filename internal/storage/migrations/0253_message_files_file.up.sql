CREATE INDEX message_files_file ON message_files (file)
