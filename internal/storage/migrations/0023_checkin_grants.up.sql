CREATE TABLE checkin_grants (
  user_id {{id}} NOT NULL,
  at BIGINT NOT NULL,
  id {{id}} NOT NULL,
  n SMALLINT NOT NULL,
  reason {{text 200}} NOT NULL,
  PRIMARY KEY (user_id, at, id)
) {{table}}
