CREATE TABLE outbox (
  id       {{serial}},
  topic    {{text 60}}  NOT NULL,
  msg_key  {{text 120}} NOT NULL,
  dedup    {{text 120}},
  payload  {{blob}}     NOT NULL,
  created  BIGINT       NOT NULL,
  due      BIGINT       NOT NULL,
  attempts INTEGER      NOT NULL,
  claim    {{text 22}}  NOT NULL,
  error    {{text 500}} NOT NULL,
  dead     INTEGER      NOT NULL,
  UNIQUE (topic, dedup)
) {{table serial}}
