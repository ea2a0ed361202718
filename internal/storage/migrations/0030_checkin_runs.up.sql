CREATE TABLE checkin_runs (
  id        {{serial}},
  kind      {{text 20}}   NOT NULL,
  options   {{text 500}}  NOT NULL,
  state     {{text 10}}   NOT NULL,
  done      BIGINT        NOT NULL,
  total     BIGINT        NOT NULL,
  created   BIGINT        NOT NULL,
  started   BIGINT        NOT NULL,
  ended     BIGINT        NOT NULL,
  node      {{text 22}}   NOT NULL,
  error     {{text 500}}  NOT NULL,
  summary   {{text 500}}  NOT NULL,
  resume_at {{text 500}}  NOT NULL,
  rev       BIGINT        NOT NULL
) {{table serial}}
