CREATE TABLE blocks (
  user_id    {{id}}  NOT NULL,
  blocked_id {{id}}  NOT NULL,
  since      BIGINT  NOT NULL,
  PRIMARY KEY (user_id, blocked_id),
  UNIQUE (blocked_id, user_id)
) {{table}}
