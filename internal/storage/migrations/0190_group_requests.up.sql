CREATE TABLE group_requests (
  id       {{id}}        NOT NULL PRIMARY KEY,
  group_id {{id}}        NOT NULL,
  user_id  {{id}}        NOT NULL,
  answer   {{text 200}}  NOT NULL,
  state    SMALLINT      NOT NULL,
  created  BIGINT        NOT NULL,
  expires  BIGINT        NOT NULL,
  waiting  {{text 24}},
  UNIQUE (waiting)
) {{table}}
