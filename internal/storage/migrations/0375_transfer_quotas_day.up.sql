CREATE INDEX transfer_quotas_day ON transfer_quotas (day)
