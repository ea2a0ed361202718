CREATE INDEX codes_expires ON codes (expires)
