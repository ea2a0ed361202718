CREATE TABLE checkin_months (
  user_id {{id}}   NOT NULL,
  month   INTEGER  NOT NULL,
  days    INTEGER  NOT NULL,
  covered INTEGER  NOT NULL,
  PRIMARY KEY (user_id, month)
) {{table}}
