CREATE INDEX checkin_touched_at ON checkin_touched (at)
