CREATE INDEX avatars_user ON avatars (user_id)
