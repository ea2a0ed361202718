CREATE INDEX security_events_user ON security_events (user_id, at, id)
