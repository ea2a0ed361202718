CREATE INDEX security_events_known ON security_events (user_id, household, kind, at)
