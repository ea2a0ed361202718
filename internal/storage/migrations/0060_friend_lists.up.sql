CREATE TABLE friend_lists (
  user_id {{id}}  NOT NULL PRIMARY KEY,
  version BIGINT  NOT NULL,
  pruned  BIGINT  NOT NULL,
  asked   BIGINT  NOT NULL,
  seen    BIGINT  NOT NULL
) {{table}}
