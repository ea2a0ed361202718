DROP INDEX transfers_sender_expires{{on transfers}}
