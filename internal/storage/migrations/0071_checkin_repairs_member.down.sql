DROP INDEX checkin_repairs_member{{on checkin_repairs}}
