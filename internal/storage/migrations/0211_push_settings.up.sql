CREATE TABLE push_settings (
  user_id  {{id}}   NOT NULL PRIMARY KEY,
  messages SMALLINT NOT NULL,
  requests SMALLINT NOT NULL,
  notices  SMALLINT NOT NULL,
  previews SMALLINT NOT NULL
) {{table}}
