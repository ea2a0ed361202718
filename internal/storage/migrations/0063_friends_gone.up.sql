CREATE INDEX friends_gone ON friends (gone)
