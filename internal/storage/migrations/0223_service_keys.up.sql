CREATE TABLE service_keys (
  id        {{id}}       NOT NULL PRIMARY KEY,
  name      {{text 60}}  NOT NULL,
  scopes    {{text 500}} NOT NULL,
  rate      INTEGER      NOT NULL,
  hash      {{text 43}}  NOT NULL,
  old_hash  {{text 43}}  NOT NULL,
  old_until BIGINT       NOT NULL,
  created   BIGINT       NOT NULL,
  expires   BIGINT       NOT NULL,
  used      BIGINT       NOT NULL,
  UNIQUE (name)
) {{table}}
