DROP INDEX group_requests_group{{on group_requests}}
