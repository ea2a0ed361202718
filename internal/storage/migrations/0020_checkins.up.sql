CREATE TABLE checkins (
  user_id {{id}} NOT NULL,
  day INTEGER NOT NULL,
  at BIGINT NOT NULL,
  kind SMALLINT NOT NULL,
  words INTEGER NOT NULL,
  minutes INTEGER NOT NULL,
  req BIGINT NOT NULL,
  PRIMARY KEY (user_id, day)
) {{table}}
