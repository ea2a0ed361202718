DROP INDEX streams_owner{{on streams}}
