DROP INDEX transfer_quotas_day{{on transfer_quotas}}
