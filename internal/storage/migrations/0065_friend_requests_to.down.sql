DROP INDEX friend_requests_to{{on friend_requests}}
