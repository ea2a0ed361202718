CREATE INDEX security_events_at ON security_events (at)
