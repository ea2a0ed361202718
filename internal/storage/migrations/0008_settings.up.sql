CREATE TABLE settings (
  name {{text 40}} NOT NULL,
  value {{text 200}} NOT NULL,
  PRIMARY KEY (name)
) {{table}}
