ALTER TABLE checkin_touched DROP COLUMN mark
