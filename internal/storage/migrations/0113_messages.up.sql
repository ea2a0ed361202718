CREATE TABLE messages (
  conversation {{id}} NOT NULL,
  seq BIGINT NOT NULL,
  id {{id}} NOT NULL,
  sender {{id}} NOT NULL,
  client_id {{text 64}} NOT NULL,
  hash {{text 43}} NOT NULL,
  body {{text}} NOT NULL,
  reply BIGINT NOT NULL,
  at BIGINT NOT NULL,
  edited BIGINT NOT NULL,
  recalled BIGINT NOT NULL,
  rev BIGINT NOT NULL,
  PRIMARY KEY (conversation, seq),
  UNIQUE (conversation, sender, client_id)
) {{table}}
