CREATE INDEX group_pictures_group ON group_pictures (group_id)
