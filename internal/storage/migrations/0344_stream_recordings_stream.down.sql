DROP INDEX stream_recordings_stream{{on stream_recordings}}
