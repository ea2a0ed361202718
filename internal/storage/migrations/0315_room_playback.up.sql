CREATE TABLE room_playback (
  room_id  {{id}}      NOT NULL PRIMARY KEY,
  given    BIGINT      NOT NULL,
  fence    BIGINT      NOT NULL,
  item     {{text 12}} NOT NULL,
  position BIGINT      NOT NULL,
  at       BIGINT      NOT NULL,
  rate     INTEGER     NOT NULL,
  paused   SMALLINT    NOT NULL
) {{table}}
