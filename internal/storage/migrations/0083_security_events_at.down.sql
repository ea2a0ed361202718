DROP INDEX security_events_at{{on security_events}}
