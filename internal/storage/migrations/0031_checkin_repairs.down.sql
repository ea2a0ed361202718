DROP TABLE checkin_repairs
