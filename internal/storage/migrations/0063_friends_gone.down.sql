DROP INDEX friends_gone{{on friends}}
