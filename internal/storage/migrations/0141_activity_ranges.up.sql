CREATE TABLE activity_ranges (
  period      {{text 8}} NOT NULL,
  first_day   INTEGER    NOT NULL,
  last_day    INTEGER    NOT NULL,
  through_day INTEGER    NOT NULL,
  actives     BIGINT     NOT NULL,
  exact       INTEGER    NOT NULL,
  partial     INTEGER    NOT NULL,
  updated     BIGINT     NOT NULL,
  PRIMARY KEY (period, first_day)
) {{table}}
