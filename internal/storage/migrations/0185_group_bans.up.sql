CREATE TABLE group_bans (
  group_id {{id}}  NOT NULL,
  user_id  {{id}}  NOT NULL,
  by_id    {{id}}  NOT NULL,
  at       BIGINT  NOT NULL,
  PRIMARY KEY (group_id, user_id)
) {{table}}
