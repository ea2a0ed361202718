CREATE INDEX email_undos_expires ON email_undos (expires)
