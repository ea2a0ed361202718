CREATE TABLE room_items (
  id       {{id}}        NOT NULL PRIMARY KEY,
  room_id  {{id}}        NOT NULL,
  place    INTEGER       NOT NULL,
  kind     SMALLINT      NOT NULL,
  source   {{text 2000}} NOT NULL,
  title    {{text 200}}  NOT NULL,
  duration BIGINT        NOT NULL,
  by_id    {{id}}        NOT NULL,
  added    BIGINT        NOT NULL
) {{table}}
