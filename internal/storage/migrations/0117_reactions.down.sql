DROP TABLE reactions
