DROP TABLE transfers
