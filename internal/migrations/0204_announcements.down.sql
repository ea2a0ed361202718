DROP TABLE announcements
