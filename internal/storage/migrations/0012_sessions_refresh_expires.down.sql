DROP INDEX sessions_refresh_expires{{on sessions}}
