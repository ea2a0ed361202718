DROP INDEX security_events_known{{on security_events}}
