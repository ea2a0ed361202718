DROP INDEX codes_expires{{on codes}}
