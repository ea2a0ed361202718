DROP INDEX transfers_sender{{on transfers}}
