DROP TABLE checkin_months
