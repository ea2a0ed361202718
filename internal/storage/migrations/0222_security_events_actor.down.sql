ALTER TABLE security_events DROP COLUMN actor
