ALTER TABLE checkin_touched DROP COLUMN first_day
