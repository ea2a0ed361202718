DROP TABLE transfer_quotas
