DROP INDEX friend_requests_expires{{on friend_requests}}
