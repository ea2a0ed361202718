CREATE TABLE room_bans (
  room_id {{id}} NOT NULL,
  user_id {{id}} NOT NULL,
  by_id   {{id}} NOT NULL,
  at      BIGINT NOT NULL,
  PRIMARY KEY (room_id, user_id)
) {{table}}
