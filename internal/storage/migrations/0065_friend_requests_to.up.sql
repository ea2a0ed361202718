CREATE INDEX friend_requests_to ON friend_requests (to_id, state, created)
