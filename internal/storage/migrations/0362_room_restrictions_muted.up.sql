CREATE INDEX room_restrictions_muted ON room_restrictions (less, muted)
