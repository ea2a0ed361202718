DROP TABLE avatars
