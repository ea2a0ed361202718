CREATE INDEX friend_requests_from ON friend_requests (from_id, state, created)
