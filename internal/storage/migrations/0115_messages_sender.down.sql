DROP INDEX messages_sender{{on messages}}
