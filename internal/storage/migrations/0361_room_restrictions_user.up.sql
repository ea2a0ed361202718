CREATE INDEX room_restrictions_user ON room_restrictions (user_id)
