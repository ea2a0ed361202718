DROP INDEX rooms_listed{{on rooms}}
