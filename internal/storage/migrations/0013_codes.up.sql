CREATE TABLE codes (
  email_hash {{text 43}}  NOT NULL,
  purpose    INTEGER      NOT NULL,
  code_hash  {{text 43}}  NOT NULL,
  tries      INTEGER      NOT NULL,
  expires    BIGINT       NOT NULL,
  PRIMARY KEY (email_hash, purpose)
) {{table}}
