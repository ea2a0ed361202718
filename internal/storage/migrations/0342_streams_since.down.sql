DROP INDEX streams_since{{on streams}}
