CREATE TABLE streams (
  id           {{id}}       NOT NULL PRIMARY KEY,
  owner_id     {{id}}       NOT NULL,
  title        {{text 100}} NOT NULL,
  access       SMALLINT     NOT NULL,
  record       SMALLINT     NOT NULL,
  created      BIGINT       NOT NULL,
  since        BIGINT       NOT NULL,
  ended        BIGINT       NOT NULL,
  publish_hash {{text 64}}  NOT NULL,
  play_hash    {{text 64}}  NOT NULL,
  fence        BIGINT       NOT NULL
) {{table}}
