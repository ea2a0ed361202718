DROP TABLE checkins
