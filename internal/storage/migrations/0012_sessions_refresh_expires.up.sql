CREATE INDEX sessions_refresh_expires ON sessions (refresh_expires)
