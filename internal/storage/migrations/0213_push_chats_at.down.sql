DROP INDEX push_chats_at{{on push_chats}}
