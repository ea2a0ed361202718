DROP INDEX group_requests_user{{on group_requests}}
