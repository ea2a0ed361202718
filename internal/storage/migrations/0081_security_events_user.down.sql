DROP INDEX security_events_user{{on security_events}}
