CREATE TABLE activity_days (
  day     INTEGER NOT NULL PRIMARY KEY,
  actives BIGINT  NOT NULL,
  exact   INTEGER NOT NULL,
  partial INTEGER NOT NULL,
  closed  BIGINT  NOT NULL,
  updated BIGINT  NOT NULL
) {{table}}
