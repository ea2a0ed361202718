CREATE TABLE room_danmaku (
  id       {{id}}       NOT NULL PRIMARY KEY,
  room_id  {{id}}       NOT NULL,
  item     {{text 12}}  NOT NULL,
  position BIGINT       NOT NULL,
  user_id  {{id}}       NOT NULL,
  body     {{text 100}} NOT NULL,
  color    INTEGER      NOT NULL,
  flight   SMALLINT     NOT NULL,
  scale    SMALLINT     NOT NULL,
  at       BIGINT       NOT NULL
) {{table}}
