DROP TABLE group_requests
