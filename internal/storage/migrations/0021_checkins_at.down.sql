DROP INDEX checkins_at{{on checkins}}
