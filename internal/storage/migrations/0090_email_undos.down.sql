DROP TABLE email_undos
