CREATE TABLE notice_lists (
  user_id {{id}}  NOT NULL PRIMARY KEY,
  newest  BIGINT  NOT NULL,
  seen    BIGINT  NOT NULL
) {{table}}
