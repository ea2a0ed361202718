DROP TABLE activity_ranges
