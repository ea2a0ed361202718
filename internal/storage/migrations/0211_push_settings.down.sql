DROP TABLE push_settings
