CREATE INDEX users_erased ON users (erased)
