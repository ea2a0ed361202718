CREATE TABLE announcement_users (
  announcement {{id}} NOT NULL,
  user_id      {{id}} NOT NULL,
  PRIMARY KEY (announcement, user_id)
) {{table}}
