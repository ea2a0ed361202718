CREATE INDEX email_undos_user ON email_undos (user_id, at)
