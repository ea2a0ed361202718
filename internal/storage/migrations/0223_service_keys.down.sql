DROP TABLE service_keys
