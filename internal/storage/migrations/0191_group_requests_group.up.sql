CREATE INDEX group_requests_group ON group_requests (group_id, state, created)
