DROP TABLE transfer_parts
