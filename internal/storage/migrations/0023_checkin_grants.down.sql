DROP TABLE checkin_grants
