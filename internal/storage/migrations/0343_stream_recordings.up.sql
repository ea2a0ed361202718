CREATE TABLE stream_recordings (
  id        {{id}}      NOT NULL PRIMARY KEY,
  stream_id {{id}}      NOT NULL,
  file_id   {{text 12}} NOT NULL,
  fault     {{text 64}} NOT NULL,
  started   BIGINT      NOT NULL,
  duration  BIGINT      NOT NULL,
  bytes     BIGINT      NOT NULL
) {{table}}
