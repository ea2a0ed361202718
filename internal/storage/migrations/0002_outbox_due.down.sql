DROP INDEX outbox_due{{on outbox}}
