ALTER TABLE checkins DROP INDEX checkins_at
