DROP INDEX users_created{{on users}}
