CREATE TABLE checkin_flushes (
  id INTEGER NOT NULL PRIMARY KEY,
  n  BIGINT  NOT NULL
) {{table}}
