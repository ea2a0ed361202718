CREATE TABLE friend_requests (
  id      {{id}}        NOT NULL PRIMARY KEY,
  from_id {{id}}        NOT NULL,
  to_id   {{id}}        NOT NULL,
  pair    {{text 24}},
  message {{text 200}}  NOT NULL,
  source  {{text 20}}   NOT NULL,
  remark  {{text 40}}   NOT NULL,
  tag     {{text 20}}   NOT NULL,
  state   SMALLINT      NOT NULL,
  created BIGINT        NOT NULL,
  expires BIGINT        NOT NULL,
  UNIQUE (pair)
) {{table}}
