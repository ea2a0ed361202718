DROP INDEX blocks_since{{on blocks}}
