CREATE TABLE cards (
  user_id {{id}}      NOT NULL PRIMARY KEY,
  token   {{text 22}} NOT NULL UNIQUE,
  expires BIGINT      NOT NULL
) {{table}}
