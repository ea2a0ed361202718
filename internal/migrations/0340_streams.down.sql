DROP TABLE streams
