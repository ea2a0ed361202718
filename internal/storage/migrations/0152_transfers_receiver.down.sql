DROP INDEX transfers_receiver{{on transfers}}
