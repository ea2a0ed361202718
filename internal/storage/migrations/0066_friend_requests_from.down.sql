DROP INDEX friend_requests_from{{on friend_requests}}
