CREATE TABLE notices (
  user_id {{id}}      NOT NULL,
  seq     BIGINT      NOT NULL,
  kind    {{text 30}} NOT NULL,
  source  {{text 80}} NOT NULL,
  subject {{id}}      NOT NULL,
  data    {{text}}    NOT NULL,
  at      BIGINT      NOT NULL,
  expires BIGINT      NOT NULL,
  read_at BIGINT      NOT NULL,
  PRIMARY KEY (user_id, seq),
  UNIQUE (user_id, source)
) {{table}}
