CREATE TABLE dev_mails (
  id        {{serial}},
  recipient {{text 254}} NOT NULL,
  subject   {{text 255}} NOT NULL,
  body      {{text}}     NOT NULL,
  sent      BIGINT       NOT NULL
) {{table serial}}
