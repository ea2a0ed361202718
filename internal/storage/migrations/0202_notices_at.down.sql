DROP INDEX notices_at{{on notices}}
