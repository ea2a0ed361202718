DROP INDEX outbox_topic{{on outbox}}
