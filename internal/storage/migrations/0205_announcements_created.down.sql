DROP INDEX announcements_created{{on announcements}}
