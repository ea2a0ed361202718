CREATE TABLE transfer_parts (
  transfer {{id}} NOT NULL,
  start BIGINT NOT NULL,
  size BIGINT NOT NULL,
  name {{text 64}} NOT NULL,
  PRIMARY KEY (transfer, start)
) {{table}}
