DROP INDEX chat_groups_dissolved{{on chat_groups}}
