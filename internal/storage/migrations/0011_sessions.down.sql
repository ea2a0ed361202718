DROP TABLE sessions
