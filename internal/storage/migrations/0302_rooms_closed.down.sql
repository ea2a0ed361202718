DROP INDEX rooms_closed{{on rooms}}
