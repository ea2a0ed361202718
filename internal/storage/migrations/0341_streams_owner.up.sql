CREATE INDEX streams_owner ON streams (owner_id, created)
