CREATE INDEX announcements_created ON announcements (created, id)
