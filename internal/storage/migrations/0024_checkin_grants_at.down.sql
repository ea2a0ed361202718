DROP INDEX checkin_grants_at{{on checkin_grants}}
