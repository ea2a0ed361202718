CREATE TABLE chat_settings (
  user_id {{id}} PRIMARY KEY,
  messages_from SMALLINT NOT NULL,
  receipts SMALLINT NOT NULL
) {{table}}
