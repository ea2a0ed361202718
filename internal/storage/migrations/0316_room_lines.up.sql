CREATE TABLE room_lines (
  room_id {{id}}       NOT NULL,
  seq     BIGINT       NOT NULL,
  user_id {{id}}       NOT NULL,
  name    {{text 40}}  NOT NULL,
  body    {{text 500}} NOT NULL,
  at      BIGINT       NOT NULL,
  PRIMARY KEY (room_id, seq)
) {{table}}
