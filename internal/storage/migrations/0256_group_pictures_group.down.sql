DROP INDEX group_pictures_group{{on group_pictures}}
