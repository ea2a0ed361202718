CREATE TABLE checkin_totals (
  user_id  {{id}}   NOT NULL PRIMARY KEY,
  streak   INTEGER  NOT NULL,
  longest  INTEGER  NOT NULL,
  total    INTEGER  NOT NULL,
  last_day INTEGER  NOT NULL,
  as_of    BIGINT   NOT NULL
) {{table}}
