CREATE TABLE room_members (
  room_id {{id}}      NOT NULL,
  user_id {{id}}      NOT NULL,
  role    SMALLINT    NOT NULL,
  name    {{text 40}} NOT NULL,
  more    INTEGER     NOT NULL,
  less    INTEGER     NOT NULL,
  muted   BIGINT      NOT NULL,
  joined  BIGINT      NOT NULL,
  expires BIGINT      NOT NULL,
  secret  {{text 64}} NOT NULL,
  PRIMARY KEY (room_id, user_id)
) {{table}}
