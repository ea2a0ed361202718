DROP TABLE checkin_totals
