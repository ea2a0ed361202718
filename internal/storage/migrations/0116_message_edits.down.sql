DROP TABLE message_edits
