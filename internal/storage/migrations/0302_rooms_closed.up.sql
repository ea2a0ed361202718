CREATE INDEX rooms_closed ON rooms (closed, active)
