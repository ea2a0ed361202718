CREATE TABLE chat_members (
  user_id {{id}} NOT NULL,
  conversation {{id}} NOT NULL,
  peer {{id}} NOT NULL,
  read_seq BIGINT NOT NULL,
  delivered_seq BIGINT NOT NULL,
  cleared_seq BIGINT NOT NULL,
  pinned BIGINT NOT NULL,
  muted BIGINT NOT NULL,
  draft {{text}} NOT NULL,
  changed BIGINT NOT NULL,
  PRIMARY KEY (user_id, conversation)
) {{table}}
