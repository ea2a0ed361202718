CREATE TABLE room_links (
  id      {{id}}  NOT NULL PRIMARY KEY,
  room_id {{id}}  NOT NULL,
  by_id   {{id}}  NOT NULL,
  created BIGINT  NOT NULL,
  expires BIGINT  NOT NULL,
  uses    INTEGER NOT NULL,
  most    INTEGER NOT NULL
) {{table}}
