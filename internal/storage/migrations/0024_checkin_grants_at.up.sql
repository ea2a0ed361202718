CREATE INDEX checkin_grants_at ON checkin_grants (at)
