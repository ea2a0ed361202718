DROP INDEX chat_members_cleared{{on chat_members}}
