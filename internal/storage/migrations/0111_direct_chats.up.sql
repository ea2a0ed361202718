CREATE TABLE direct_chats (
  low {{id}} NOT NULL,
  high {{id}} NOT NULL,
  conversation {{id}} NOT NULL,
  PRIMARY KEY (low, high)
) {{table}}
