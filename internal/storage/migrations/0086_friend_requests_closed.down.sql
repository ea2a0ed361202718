ALTER TABLE friend_requests DROP COLUMN closed
