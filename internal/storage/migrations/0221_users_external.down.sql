DROP INDEX users_external{{on users}}
