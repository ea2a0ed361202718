CREATE TABLE hidden_messages (
  user_id {{id}} NOT NULL,
  conversation {{id}} NOT NULL,
  seq BIGINT NOT NULL,
  rev BIGINT NOT NULL,
  PRIMARY KEY (user_id, conversation, seq)
) {{table}}
