CREATE TABLE friends (
  user_id   {{id}}       NOT NULL,
  friend_id {{id}}       NOT NULL,
  remark    {{text 40}}  NOT NULL,
  tag       {{text 20}}  NOT NULL,
  source    {{text 20}}  NOT NULL,
  sort      INTEGER      NOT NULL,
  since     BIGINT       NOT NULL,
  updated   BIGINT       NOT NULL,
  version   BIGINT       NOT NULL,
  gone      BIGINT       NOT NULL,
  PRIMARY KEY (user_id, friend_id),
  UNIQUE (user_id, version)
) {{table}}
