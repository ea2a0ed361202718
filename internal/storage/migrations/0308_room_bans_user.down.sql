DROP INDEX room_bans_user{{on room_bans}}
