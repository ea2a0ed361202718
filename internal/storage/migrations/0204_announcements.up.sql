CREATE TABLE announcements (
  id        {{id}}       NOT NULL PRIMARY KEY,
  texts     {{text}}     NOT NULL,
  link      {{text 500}} NOT NULL,
  segment   {{text 500}} NOT NULL,
  listed    SMALLINT     NOT NULL,
  created   BIGINT       NOT NULL,
  expires   BIGINT       NOT NULL,
  state     {{text 10}}  NOT NULL,
  total     BIGINT       NOT NULL,
  done      BIGINT       NOT NULL,
  delivered BIGINT       NOT NULL,
  place     {{id}}       NOT NULL,
  started   BIGINT       NOT NULL,
  ended     BIGINT       NOT NULL
) {{table}}
