CREATE INDEX checkin_repairs_member ON checkin_repairs (member)
