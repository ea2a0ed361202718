DROP INDEX group_requests_expires{{on group_requests}}
