CREATE TABLE chat_groups (
  id            {{id}}       NOT NULL PRIMARY KEY,
  name          {{text 60}}  NOT NULL,
  announcement  {{text}}     NOT NULL,
  announced     BIGINT       NOT NULL,
  joins         SMALLINT     NOT NULL,
  question      {{text 200}} NOT NULL,
  admins_invite SMALLINT     NOT NULL,
  muted         BIGINT       NOT NULL,
  members       INTEGER      NOT NULL,
  version       BIGINT       NOT NULL,
  pruned        BIGINT       NOT NULL,
  created       BIGINT       NOT NULL,
  dissolved     BIGINT       NOT NULL
) {{table}}
