CREATE TABLE transfers (
  id {{id}} NOT NULL PRIMARY KEY,
  sender {{id}} NOT NULL,
  receiver {{id}} NOT NULL,
  name {{text 255}} NOT NULL,
  media {{text 100}} NOT NULL,
  size BIGINT NOT NULL,
  sha256 {{text 64}} NOT NULL,
  status INTEGER NOT NULL,
  reason {{text 16}} NOT NULL,
  bytes BIGINT NOT NULL,
  state {{blob}} NOT NULL,
  content INTEGER NOT NULL,
  created BIGINT NOT NULL,
  updated BIGINT NOT NULL,
  expires BIGINT NOT NULL
) {{table}}
