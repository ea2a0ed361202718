CREATE TABLE transfer_thumbnails (
  transfer {{id}} NOT NULL,
  side INTEGER NOT NULL,
  width INTEGER NOT NULL,
  height INTEGER NOT NULL,
  type {{text 20}} NOT NULL,
  size BIGINT NOT NULL,
  name {{text 64}} NOT NULL,
  PRIMARY KEY (transfer, side)
) {{table}}
