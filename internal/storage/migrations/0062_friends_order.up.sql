CREATE INDEX friends_order ON friends (user_id, gone, sort, since DESC, friend_id)
