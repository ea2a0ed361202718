CREATE TABLE projection_marks (
  projection {{text 32}} NOT NULL,
  node {{text 64}} NOT NULL,
  mark {{text 64}} NOT NULL,
  PRIMARY KEY (projection, node)
) {{table}}
