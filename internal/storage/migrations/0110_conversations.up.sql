CREATE TABLE conversations (
  id {{id}} PRIMARY KEY,
  kind SMALLINT NOT NULL,
  seq BIGINT NOT NULL,
  rev BIGINT NOT NULL,
  last_at BIGINT NOT NULL,
  changed BIGINT NOT NULL
) {{table}}
