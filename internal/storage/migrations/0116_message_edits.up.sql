CREATE TABLE message_edits (
  conversation {{id}} NOT NULL,
  seq BIGINT NOT NULL,
  rev BIGINT NOT NULL,
  body {{text}} NOT NULL,
  until BIGINT NOT NULL,
  PRIMARY KEY (conversation, seq, rev)
) {{table}}
