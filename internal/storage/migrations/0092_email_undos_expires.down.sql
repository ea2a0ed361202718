DROP INDEX email_undos_expires{{on email_undos}}
