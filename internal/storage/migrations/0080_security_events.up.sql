CREATE TABLE security_events (
  id        {{id}}       NOT NULL,
  user_id   {{id}}       NOT NULL,
  device_id {{id}}       NOT NULL,
  kind      {{text 24}}  NOT NULL,
  household {{text 45}}  NOT NULL,
  at        BIGINT       NOT NULL,
  PRIMARY KEY (id)
) {{table}}
