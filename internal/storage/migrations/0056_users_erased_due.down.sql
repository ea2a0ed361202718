DROP INDEX users_erased{{on users}}
