DROP TABLE group_pictures
