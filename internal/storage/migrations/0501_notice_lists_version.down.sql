ALTER TABLE notice_lists DROP COLUMN version
