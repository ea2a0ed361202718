CREATE TABLE users (
  id            {{id}}         NOT NULL PRIMARY KEY,
  email         {{text 254}}   NOT NULL,
  email_key     {{text 254}}   NOT NULL,
  name          {{text 40}}    NOT NULL,
  password_hash {{text 160}},
  zone          {{text 64}}    NOT NULL,
  zone_next     {{text 64}}    NOT NULL,
  zone_from     BIGINT         NOT NULL,
  created       BIGINT         NOT NULL,
  UNIQUE (email_key)
) {{table}}
