DROP INDEX friends_order{{on friends}}
