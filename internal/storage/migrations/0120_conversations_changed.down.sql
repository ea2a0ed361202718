DROP INDEX conversations_changed{{on conversations}}
