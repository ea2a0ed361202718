CREATE TABLE transfer_quotas (
  user_id {{id}} NOT NULL,
  day BIGINT NOT NULL,
  files BIGINT NOT NULL,
  bytes BIGINT NOT NULL,
  PRIMARY KEY (user_id, day)
) {{table}}
