DROP INDEX transfers_status{{on transfers}}
