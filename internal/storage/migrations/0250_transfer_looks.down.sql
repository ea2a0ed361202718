DROP TABLE transfer_looks
