DROP INDEX messages_rev{{on messages}}
