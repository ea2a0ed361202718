DROP INDEX stream_recordings_started{{on stream_recordings}}
