ALTER TABLE checkin_touched DROP COLUMN last_day
