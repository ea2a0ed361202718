DROP TABLE friend_requests
