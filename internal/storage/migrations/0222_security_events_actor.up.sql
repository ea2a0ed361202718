ALTER TABLE security_events ADD COLUMN actor {{text 60}} NOT NULL DEFAULT ''
