DROP TABLE checkin_makeups
