DROP TABLE checkin_flushes
