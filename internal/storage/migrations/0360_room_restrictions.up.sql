CREATE TABLE room_restrictions (
  room_id {{id}}  NOT NULL,
  user_id {{id}}  NOT NULL,
  muted   BIGINT  NOT NULL,
  less    INTEGER NOT NULL,
  PRIMARY KEY (room_id, user_id)
) {{table}}
