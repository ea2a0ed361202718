ALTER TABLE friend_lists DROP COLUMN news
