DROP INDEX transfers_expires{{on transfers}}
