CREATE TABLE checkin_makeups (
  user_id {{id}} NOT NULL,
  month INTEGER NOT NULL,
  n SMALLINT NOT NULL,
  day INTEGER NOT NULL,
  at BIGINT NOT NULL,
  req BIGINT NOT NULL,
  PRIMARY KEY (user_id, month, n)
) {{table}}
