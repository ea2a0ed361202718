DROP TABLE settings
