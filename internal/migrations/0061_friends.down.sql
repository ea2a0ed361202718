DROP TABLE friends
