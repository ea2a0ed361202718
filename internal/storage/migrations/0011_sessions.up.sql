CREATE TABLE sessions (
  user_id           {{id}}       NOT NULL,
  device_id         {{id}}       NOT NULL,
  name              {{text 60}}  NOT NULL,
  ip                {{text 45}}  NOT NULL,
  created           BIGINT       NOT NULL,
  used              BIGINT       NOT NULL,
  access_hash       {{text 43}}  NOT NULL,
  access_expires    BIGINT       NOT NULL,
  refresh_hash      {{text 43}}  NOT NULL,
  refresh_expires   BIGINT       NOT NULL,
  prev_refresh_hash {{text 43}}  NOT NULL,
  prev_until        BIGINT       NOT NULL,
  nonce             {{text 22}}  NOT NULL,
  rev               BIGINT       NOT NULL,
  PRIMARY KEY (user_id, device_id)
) {{table}}
