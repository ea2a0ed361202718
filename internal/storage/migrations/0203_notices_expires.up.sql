CREATE INDEX notices_expires ON notices (expires)
