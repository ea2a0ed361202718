CREATE TABLE reactions (
  conversation {{id}} NOT NULL,
  seq BIGINT NOT NULL,
  user_id {{id}} NOT NULL,
  emoji {{text 32}} NOT NULL,
  at BIGINT NOT NULL,
  PRIMARY KEY (conversation, seq, user_id, emoji)
) {{table}}
