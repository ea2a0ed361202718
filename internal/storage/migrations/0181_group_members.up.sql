CREATE TABLE group_members (
  group_id {{id}}      NOT NULL,
  user_id  {{id}}      NOT NULL,
  role     SMALLINT    NOT NULL,
  nickname {{text 40}} NOT NULL,
  muted    BIGINT      NOT NULL,
  joined   BIGINT      NOT NULL,
  inviter  {{id}}      NOT NULL,
  remark   {{text 40}} NOT NULL,
  notify   SMALLINT    NOT NULL,
  seen     BIGINT      NOT NULL,
  version  BIGINT      NOT NULL,
  gone     BIGINT      NOT NULL,
  PRIMARY KEY (group_id, user_id),
  UNIQUE (group_id, version)
) {{table}}
