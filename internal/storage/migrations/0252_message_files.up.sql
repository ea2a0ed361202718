CREATE TABLE message_files (
  conversation {{id}} NOT NULL,
  seq BIGINT NOT NULL,
  file {{id}} NOT NULL,
  PRIMARY KEY (conversation, seq)
) {{table}}
