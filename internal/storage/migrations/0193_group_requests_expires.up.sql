CREATE INDEX group_requests_expires ON group_requests (expires)
