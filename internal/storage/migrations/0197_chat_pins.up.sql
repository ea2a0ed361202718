CREATE TABLE chat_pins (
  conversation {{id}} NOT NULL,
  seq BIGINT NOT NULL,
  by_id {{id}} NOT NULL,
  at BIGINT NOT NULL,
  PRIMARY KEY (conversation, seq)
) {{table}}
