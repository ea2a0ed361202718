CREATE TABLE presence (
  user_id {{id}}   NOT NULL,
  wish    INTEGER  NOT NULL,
  version BIGINT   NOT NULL,
  seen    BIGINT   NOT NULL,
  PRIMARY KEY (user_id)
) {{table}}
