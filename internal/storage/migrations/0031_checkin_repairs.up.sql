CREATE TABLE checkin_repairs (
  id       {{serial}},
  at       BIGINT       NOT NULL,
  run      BIGINT       NOT NULL,
  member   {{text 64}}  NOT NULL,
  what     {{text 60}}  NOT NULL,
  was      {{text 500}} NOT NULL,
  becomes  {{text 500}} NOT NULL,
  repaired INTEGER      NOT NULL
) {{table serial}}
