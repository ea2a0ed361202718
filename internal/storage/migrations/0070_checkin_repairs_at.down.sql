DROP INDEX checkin_repairs_at{{on checkin_repairs}}
