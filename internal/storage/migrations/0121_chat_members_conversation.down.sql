DROP INDEX chat_members_conversation{{on chat_members}}
