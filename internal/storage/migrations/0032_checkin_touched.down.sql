DROP TABLE checkin_touched
