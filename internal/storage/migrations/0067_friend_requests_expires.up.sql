CREATE INDEX friend_requests_expires ON friend_requests (state, expires)
