CREATE INDEX group_requests_user ON group_requests (user_id)
