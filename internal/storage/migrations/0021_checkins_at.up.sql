CREATE INDEX checkins_at ON checkins (at)
