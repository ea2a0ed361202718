DROP INDEX email_undos_user{{on email_undos}}
