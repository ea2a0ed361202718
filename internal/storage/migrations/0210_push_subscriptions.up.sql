CREATE TABLE push_subscriptions (
  user_id   {{id}}        NOT NULL,
  device_id {{id}}        NOT NULL,
  endpoint  {{text 1000}} NOT NULL,
  hash      {{text 43}}   NOT NULL,
  p256dh    {{text 100}}  NOT NULL,
  auth      {{text 40}}   NOT NULL,
  created   BIGINT        NOT NULL,
  PRIMARY KEY (user_id, device_id),
  UNIQUE (hash)
) {{table}}
