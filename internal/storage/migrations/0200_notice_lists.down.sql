DROP TABLE notice_lists
