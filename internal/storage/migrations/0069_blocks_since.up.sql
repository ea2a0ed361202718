CREATE INDEX blocks_since ON blocks (user_id, since, blocked_id)
