DROP TABLE presence
