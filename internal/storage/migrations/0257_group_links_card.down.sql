ALTER TABLE group_links DROP COLUMN card
