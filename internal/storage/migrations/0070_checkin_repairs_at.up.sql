CREATE INDEX checkin_repairs_at ON checkin_repairs (repaired, at)
