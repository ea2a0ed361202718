CREATE TABLE group_pictures (
  id       {{id}}      NOT NULL,
  size     INTEGER     NOT NULL,
  group_id {{id}}      NOT NULL,
  type     {{text 20}} NOT NULL,
  data     {{blob}}    NOT NULL,
  PRIMARY KEY (id, size)
) {{table}}
