DROP INDEX chat_members_changed{{on chat_members}}
