CREATE TABLE email_undos (
  token_hash {{text 43}}   NOT NULL,
  user_id    {{id}}        NOT NULL,
  email      {{text 254}}  NOT NULL,
  at         BIGINT        NOT NULL,
  expires    BIGINT        NOT NULL,
  PRIMARY KEY (token_hash)
) {{table}}
