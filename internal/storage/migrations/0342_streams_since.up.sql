CREATE INDEX streams_since ON streams (since, id)
