CREATE INDEX notices_at ON notices (at)
