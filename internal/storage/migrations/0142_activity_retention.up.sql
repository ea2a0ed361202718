CREATE TABLE activity_retention (
  cohort     INTEGER NOT NULL,
  days_after INTEGER NOT NULL,
  size       BIGINT  NOT NULL,
  active     BIGINT  NOT NULL,
  updated    BIGINT  NOT NULL,
  PRIMARY KEY (cohort, days_after)
) {{table}}
