DROP INDEX checkin_touched_at{{on checkin_touched}}
