DROP INDEX avatars_user{{on avatars}}
