CREATE TABLE idempotency_keys (
  scope        {{text 120}} NOT NULL,
  idem_key     {{text 128}} NOT NULL,
  request_hash {{text 43}}  NOT NULL,
  status       INTEGER      NOT NULL,
  content_type {{text 100}} NOT NULL,
  body         {{blob}}     NOT NULL,
  created      BIGINT       NOT NULL,
  claimed      BIGINT       NOT NULL DEFAULT 0,
  expires      BIGINT       NOT NULL,
  PRIMARY KEY (scope, idem_key)
) {{table}}
