CREATE TABLE push_chats (
  user_id      {{id}} NOT NULL,
  conversation {{id}} NOT NULL,
  seq          BIGINT NOT NULL,
  at           BIGINT NOT NULL,
  PRIMARY KEY (user_id, conversation)
) {{table}}
