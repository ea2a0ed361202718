CREATE INDEX stream_recordings_stream ON stream_recordings (stream_id, started)
