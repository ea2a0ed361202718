CREATE INDEX rooms_listed ON rooms (listed, closed, active)
