DROP INDEX transfers_sender_status{{on transfers}}
