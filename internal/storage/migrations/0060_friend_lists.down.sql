DROP TABLE friend_lists
