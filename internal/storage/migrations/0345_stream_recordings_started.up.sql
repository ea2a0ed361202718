CREATE INDEX stream_recordings_started ON stream_recordings (started)
