CREATE UNIQUE INDEX users_external ON users (external_id)
