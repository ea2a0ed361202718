CREATE TABLE transfer_looks (
  transfer {{id}} NOT NULL PRIMARY KEY,
  type {{text 20}} NOT NULL,
  width INTEGER NOT NULL,
  height INTEGER NOT NULL,
  duration INTEGER NOT NULL
) {{table}}
