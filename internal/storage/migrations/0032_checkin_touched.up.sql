CREATE TABLE checkin_touched (
  user_id {{id}}  NOT NULL PRIMARY KEY,
  at      BIGINT  NOT NULL
) {{table}}
