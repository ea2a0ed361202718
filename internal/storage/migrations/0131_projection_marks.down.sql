DROP TABLE projection_marks
