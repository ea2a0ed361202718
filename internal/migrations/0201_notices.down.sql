DROP TABLE notices
